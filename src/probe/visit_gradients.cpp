#include "probe/visit_gradients.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace heddle {

namespace {

double dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

/// Same graph on every rank, so the same list of visits: each is one sum over the ranks that hold the elements.
std::vector<VisitGradient> over_ranks(ProcessGroups& groups, VisitParameters& visits,
                                      const std::deque<Parameter>& order) {
  std::vector<VisitGradient> gradients;
  for (const Parameter& p : order)
    for (auto first = visits.visits().lower_bound({&p, 0}); first != visits.visits().end() && first->first.first == &p;
         ++first) {
      if (!first->second.has_gradient) continue;
      std::vector<float> values = first->second.gradient.get<float>();
      Communicator& ranks = p.sharing == Sharing::kExpert ? groups.expert_replicas() : groups.world();
      ranks.host().all_reduce_sum(std::span<float>(values));
      gradients.push_back({&p, first->first.second, std::move(values)});
    }
  return gradients;
}

}  // namespace

Parameter& VisitParameters::stand_in(Parameter& p) {
  if (!p.name.starts_with("core.")) return p;
  const auto [found, is_new] = visits_.try_emplace({&p, loop_}, p);
  Parameter& visit = found->second;
  if (is_new) {
    visit.has_gradient = visit.summed = false;
    visit.gradient = allocates_ ? Tensor::empty(p.local_shape, Purpose::kGradients) : Tensor();
  }
  return visit;
}

void VisitParameters::on_loop_input(int64_t loop, const Tensor&) {
  loop_ = loop;
}

void VisitParameters::on_block(const BlockView& view) {
  if (!keeps_choices_ || view.place.stored_moe < 0) return;
  choices_[{view.place.stored_moe, view.place.loop}] = view.routing.index.clone();
}

std::vector<VisitGradient> visit_gradients(LoopedModel& model, const ProbeDocuments& documents) {
  VisitParameters visits;
  visits.allocate_gradients(true);
  // The other parameters' gradients are made and forgotten.
  if (!model.parameters().all().front().gradient.defined()) model.parameters().allocate_gradients();
  model.parameters().clear_gradients();
  for (const DocumentBatch& here : documents.batches()) {
    visits.begin(here);
    Tape tape = model.tape(Tape::Mode::kRecord);
    tape.set_substitution(&visits);
    LoopedModel::Options options;
    options.use_capacity = false;
    options.observer = &visits;
    const Variable embedding = model.embed(tape, here.tokens, options);
    LoopState state = model.start(here.tokens, embedding);
    model.run_loops(tape, here.tokens, embedding, 0, model.active_loops(), options, state);
    const Variable y = model.read_out(tape, here.tokens, embedding, state, options);
    model.loss(tape, y, here.tokens, 1 / static_cast<double>(documents.total_tokens()));
    state = {};
    tape.backward();
  }
  model.parameters().clear_gradients();
  return over_ranks(model.groups(), visits, model.parameters().all());
}

double Gram::norm(int64_t i) const {
  return std::sqrt(std::max(0.0, at(i, i)));
}

double Gram::sum_norm() const {
  double sum = 0;
  for (const double product : products) sum += product;
  return std::sqrt(std::max(0.0, sum));  // rounding may leave a sum that cancels below zero
}

double alignment(const Gram& gradients) {
  double squares = 0;
  for (int64_t i = 0; i < gradients.n; ++i) squares += gradients.at(i, i);
  if (!(squares > 0)) return std::numeric_limits<double>::quiet_NaN();
  const double sum = gradients.sum_norm();
  return sum * sum / squares;
}

double kappa(const Gram& read_backs, const Gram& gradients) {
  require(read_backs.n == gradients.n && gradients.n > 0, "kappa of {} read-backs and {} gradients", read_backs.n,
          gradients.n);
  double largest_u = 0, largest_g = 0;
  for (int64_t i = 0; i < gradients.n; ++i) {
    largest_u = std::max(largest_u, read_backs.norm(i));
    largest_g = std::max(largest_g, gradients.norm(i));
  }
  if (!(largest_u > 0 && largest_g > 0)) return std::numeric_limits<double>::quiet_NaN();
  return read_backs.sum_norm() * gradients.sum_norm() / (static_cast<double>(gradients.n) * largest_u * largest_g);
}

Gram gradient_gram(LoopedModel& model, const std::vector<VisitGradient>& gradients, const std::vector<int64_t>& loops,
                   const std::function<bool(const Parameter&)>& wanted) {
  const auto n = static_cast<int64_t>(loops.size());
  Gram replicated(n), experts(n);
  const auto place = [&](int64_t loop) { return std::find(loops.begin(), loops.end(), loop) - loops.begin(); };
  for (const VisitGradient& a : gradients) {
    const int64_t i = place(a.loop);
    if (i == n || !wanted(*a.parameter)) continue;
    Gram& gram = a.parameter->sharing == Sharing::kExpert ? experts : replicated;
    for (const VisitGradient& b : gradients)
      if (const int64_t j = place(b.loop); a.parameter == b.parameter && j < n)
        gram.at(i, j) += dot(a.gradient, b.gradient);
  }
  model.groups().expert_parallel().host().all_reduce_sum(std::span<double>(experts.products));
  for (size_t i = 0; i < experts.products.size(); ++i) replicated.products[i] += experts.products[i];
  return replicated;
}

}  // namespace heddle
