#include "moe/moe_layer.h"

#include <algorithm>
#include <optional>

#include "moe/dispatch.h"

namespace heddle {

namespace {

Tensor rigged(const MoeConfig& config, int64_t rows, Purpose purpose) {
  const Tensor index = Tensor::empty({rows, config.top_k}, purpose, DType::kInt32);
  std::vector<int32_t> choices(static_cast<size_t>(index.count()));
  const int64_t period = config.gate == Gate::kUniform ? config.experts : config.top_k;
  for (size_t slot = 0; slot < choices.size(); ++slot)
    choices[slot] = static_cast<int32_t>(static_cast<int64_t>(slot) % period);
  index.set<int32_t>(choices);
  return index;
}

/// Element `row` of a list, or its last.
template <typename T>
T& row_or_last(const std::vector<T*>& list, int64_t row) {
  return *list[static_cast<size_t>(std::min<int64_t>(row, static_cast<int64_t>(list.size()) - 1))];
}

Variable router_logits(Tape& tape, const MoeParameters& p, int64_t router, const Variable& x) {
  const Variable logits = linear(tape, x, tape.parameter(row_or_last(p.routers, router)));
  if (p.router_biases.empty()) return logits;
  return add_row(tape, logits, tape.parameter(row_or_last(p.router_biases, router)), 0);
}

Variable scores_of(Tape& tape, const MoeConfig& config, const Variable& logits) {
  return config.score == RouterScore::kSigmoid ? sigmoid(tape, logits) : softmax(tape, logits);
}

Variable score(Tape& tape, const MoeConfig& config, const MoeParameters& p, const MoeVisit& visit, const Variable& x) {
  const Variable logits = router_logits(tape, p, visit.router, x);
  if (visit.losses != nullptr) visit.losses->add_logits(tape, logits);
  return scores_of(tape, config, logits);
}

const float* balance_row(const MoeConfig& config, const MoeParameters& p, int64_t router) {
  const int64_t rows = p.balance_bias.count() / config.experts;
  return p.balance_bias.f32() + std::min(router, rows - 1) * config.experts;
}

Tensor choice_of(const Kernels& kernels, const MoeConfig& config, const Tensor& scores, const float* bias,
                 Purpose purpose) {
  const int64_t n = scores.dim(0);
  const Tensor index = Tensor::empty({n, config.top_k}, purpose, DType::kInt32);
  kernels.top_k(n, config.experts, config.top_k, scores.f32(), bias, index.i32());
  return index;
}

/// Takes the slots of skipped experts out of the routing; the weights of other slots stay.
void skip_experts(const MoeVisit& visit, Routing& routing) {
  const std::vector<int32_t> index = routing.index.get<int32_t>();
  std::vector<float> weights = routing.weights.get<float>();
  if (!routing.keep.defined()) {
    routing.keep = Tensor::empty(routing.index.shape(), Purpose::kActivations, DType::kUint8);
    routing.keep.set<uint8_t>(std::vector<uint8_t>(index.size(), 1));
  }
  std::vector<uint8_t> keep = routing.keep.get<uint8_t>();
  for (size_t slot = 0; slot < index.size(); ++slot)
    for (const int64_t expert : visit.skipped_experts)
      if (index[slot] == expert) {
        keep[slot] = 0;
        weights[slot] = 0;
      }
  routing.keep.set<uint8_t>(keep);
  routing.weights.set<float>(weights);
}

Routing choose(Tape& tape, ProcessGroups& groups, const MoeConfig& config, const MoeParameters& p,
               const MoeVisit& visit, const Variable& scores, Variable* weights) {
  Routing routing;
  const int64_t n = scores.value.dim(0);
  routing.scores = scores.value;
  if (visit.choice != nullptr) {
    routing.index = Tensor::empty({n, config.top_k}, Purpose::kActivations, DType::kInt32);
    routing.index.set<int32_t>(visit.choice->get<int32_t>());
  } else if (config.gate == Gate::kLearned) {
    routing.index =
        choice_of(tape.kernels(), config, scores.value, balance_row(config, p, visit.router), Purpose::kActivations);
  } else {
    routing.index = rigged(config, n, Purpose::kActivations);
  }
  if (visit.losses != nullptr) visit.losses->add_choice(tape, visit.visit, routing.index, scores);
  if (visit.use_capacity && config.capacity_factor > 0) {
    const Tensor wanted = Tensor::empty({n, config.top_k}, Purpose::kWorkspace);
    tape.kernels().route_weights_forward(n, config.experts, config.top_k, config.renormalise, scores.value.f32(),
                                         routing.index.i32(), nullptr, wanted.f32());
    routing.keep = capacity_keep(tape.kernels(), groups.world(), config.capacity_scope, config.capacity_factor,
                                 config.experts, routing.index, wanted);
  }
  *weights = route_weights(tape, scores, routing.index, routing.keep, config.renormalise);
  routing.weights = weights->value;
  if (!visit.skipped_experts.empty()) skip_experts(visit, routing);
  return routing;
}

/// A part of the tokens on its way through the experts.
struct Chunk {
  std::shared_ptr<const RoutePlan> plan;
  Variable x, weights;
  std::optional<Dispatch> to_experts;
  std::optional<Combine> to_tokens;
};

std::vector<int64_t> chunk_sizes(int64_t rows, int64_t chunks) {
  std::vector<int64_t> sizes;
  for (int64_t c = 0; c < chunks; ++c) sizes.push_back(rows * (c + 1) / chunks - rows * c / chunks);
  return sizes;
}

/// Plans of all parts: the host waits for counts before the first row travels, and not again.
std::vector<Chunk> make_chunks(Tape& tape, ProcessGroups& groups, const MoeConfig& config, const Routing& chosen,
                               const Variable& x, const Variable& weights, const std::vector<int64_t>& sizes,
                               RowMarks* marks) {
  const bool one = sizes.size() == 1;
  const std::vector<Variable> xs = one ? std::vector{x} : split_rows(tape, x, sizes);
  const std::vector<Variable> ws = one ? std::vector{weights} : split_rows(tape, weights, sizes);
  std::vector<RouteChoice> choices;
  int64_t first = 0;
  for (const int64_t size : sizes) {
    const auto part = [&](const Tensor& of) { return of.defined() ? of.rows(first, size) : of; };
    choices.push_back({part(chosen.index), part(chosen.keep), part(chosen.weights)});
    first += size;
  }
  const auto plans = make_route_plans(tape.kernels(), groups.expert_parallel(), config.experts, choices, marks);
  std::vector<Chunk> chunks;
  for (size_t c = 0; c < sizes.size(); ++c) chunks.push_back({plans[c], xs[c], ws[c], {}, {}});
  return chunks;
}

Variable experts(Tape& tape, const MoeParameters& p, const RoutePlan& plan, const Variable& rows) {
  const Variable hidden = swiglu(tape, grouped_linear(tape, rows, tape.parameter(*p.gate_proj), plan.expert_offsets),
                                 grouped_linear(tape, rows, tape.parameter(*p.up_proj), plan.expert_offsets));
  return grouped_linear(tape, hidden, tape.parameter(*p.down_proj), plan.expert_offsets);
}

/// Results of all parts, onto base where there is one.
Variable gather(Tape& tape, std::vector<Chunk>& chunks, const Variable& x, const Variable& base,
                const std::vector<int64_t>& sizes) {
  if (chunks.size() == 1) return chunks[0].to_tokens->finish(tape, base);
  const bool onto = base.value.defined();
  const Tensor whole = onto ? base.value : Tensor::empty(x.value.shape(), Purpose::kActivations, x.value.dtype());
  const std::vector<Variable> bases = onto ? split_rows(tape, base, sizes) : std::vector<Variable>(chunks.size());
  std::vector<Variable> parts;
  int64_t first = 0;
  for (size_t c = 0; c < chunks.size(); first += sizes[c++])
    parts.push_back(chunks[c].to_tokens->finish(tape, bases[c], whole.rows(first, sizes[c])));
  return join_rows(tape, whole, parts);
}

}  // namespace

RouterDecision decide_by_router(Tape& tape, const MoeConfig& config, const MoeParameters& p, int64_t router,
                                const Tensor& x) {
  require(!tape.recording(), "a router that is asked outside of a visit gets no gradient");
  const Variable logits = router_logits(tape, p, router, Tape::constant(x));
  const Tensor scores = scores_of(tape, config, logits).value;
  const auto choice = [&](const float* bias) {
    return choice_of(tape.kernels(), config, scores, bias, Purpose::kWorkspace);
  };
  return {logits.value,
          config.gate == Gate::kLearned ? choice(balance_row(config, p, router))
                                        : rigged(config, x.dim(0), Purpose::kWorkspace),
          choice(nullptr)};
}

Variable moe_forward(Tape& tape, ProcessGroups& groups, const MoeConfig& config, const MoeParameters& p,
                     const MoeVisit& visit, const Variable& x) {
  require(visit.skipped_experts.empty() || !tape.recording(), "experts are skipped while a tape records");
  const Variable scores = score(tape, config, p, visit, x);
  Variable weights;
  Routing chosen = choose(tape, groups, config, p, visit, scores, &weights);

  Communicator& group = groups.expert_parallel();
  const std::vector<int64_t> sizes = chunk_sizes(x.value.dim(0), group.size() > 1 ? groups.exchange_chunks() : 1);
  std::vector<Chunk> chunks = make_chunks(tape, groups, config, chosen, x, weights, sizes, visit.marks);
  const auto send = [&](Chunk& chunk) { chunk.to_experts.emplace(tape, group, chunk.plan, chunk.x); };
  // While rows travel, the experts compute the part before, and the shared experts their inner part on the way out and
  // their outer part on the way back.
  send(chunks[0]);
  Variable shared;
  if (p.shared_gate_proj != nullptr)
    shared = swiglu(tape, linear(tape, x, tape.parameter(*p.shared_gate_proj)),
                    linear(tape, x, tape.parameter(*p.shared_up_proj)));
  for (size_t c = 0; c < chunks.size(); ++c) {
    if (c + 1 < chunks.size()) send(chunks[c + 1]);
    const Variable rows = chunks[c].to_experts->finish(tape);
    chunks[c].to_tokens.emplace(tape, group, chunks[c].plan, experts(tape, p, *chunks[c].plan, rows),
                                chunks[c].weights);
  }
  Variable base;
  if (shared.value.defined()) base = linear(tape, shared, tape.parameter(*p.shared_down_proj));
  const Variable out = gather(tape, chunks, x, base, sizes);
  if (visit.routing != nullptr) *visit.routing = std::move(chosen);
  return out;
}

}  // namespace heddle
