// How visits read an update back: Jacobian-vector products of single visits by central differences.
#include <algorithm>
#include <cmath>

#include "probe/gradients.h"

namespace heddle {

namespace {

// Length of the step over the norm of the group's weights. Central differences err by its square times the curvature,
// and by float32's rounding over it.
constexpr double kRelativeStep = 1e-3;

/// Sum over loops of the gradients of one parameter, empty where it has none.
std::vector<float> summed(const std::vector<VisitGradient>& gradients, const std::vector<int64_t>& loops,
                          const Parameter& p) {
  std::vector<float> sum;
  for (const VisitGradient& g : gradients) {
    if (g.parameter != &p || std::find(loops.begin(), loops.end(), g.loop) == loops.end()) continue;
    sum.resize(g.gradient.size(), 0);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += g.gradient[i];
  }
  return sum;
}

struct Direction {
  std::vector<std::pair<Parameter*, std::vector<float>>> parts;  ///< of unit norm together, over ranks
  double step = 0;
};

/// Collective.
Direction direction_of(LoopedModel& model, const std::vector<VisitGradient>& gradients,
                       const std::vector<int64_t>& loops, const std::function<bool(const Parameter&)>& group) {
  Direction direction;
  double squares[2][2] = {};  // replicated, experts x gradients, weights
  for (Parameter& p : model.parameters().all()) {
    if (!group(p)) continue;
    std::vector<float> sum = summed(gradients, loops, p);
    if (sum.empty()) continue;
    double* const here = squares[p.sharing == Sharing::kExpert];
    for (const float g : sum) here[0] += static_cast<double>(g) * static_cast<double>(g);
    for (const float w : p.value.get<float>()) here[1] += static_cast<double>(w) * static_cast<double>(w);
    direction.parts.emplace_back(&p, std::move(sum));
  }
  model.groups().expert_parallel().host().all_reduce_sum(std::span<double>(squares[1], 2));
  const double length = std::sqrt(squares[0][0] + squares[1][0]);
  direction.step = kRelativeStep * std::sqrt(squares[0][1] + squares[1][1]);
  for (auto& [p, values] : direction.parts)
    for (float& value : values) value = length > 0 ? static_cast<float>(static_cast<double>(value) / length) : 0;
  return direction;
}

/// Gives the stand-ins of one loop the weights plus `step` along the direction; step 0: the model's own.
void set_weights(VisitParameters& visits, const Direction& direction, int64_t loop, double step) {
  for (const auto& [p, values] : direction.parts) {
    const auto found = visits.visits().find({p, loop});
    if (found == visits.visits().end()) continue;
    if (step == 0) {
      found->second.value = p->value;
      continue;
    }
    std::vector<float> moved = p->value.get<float>();
    for (size_t i = 0; i < moved.size(); ++i)
      moved[i] = static_cast<float>(static_cast<double>(moved[i]) + step * static_cast<double>(values[i]));
    found->second.value = Tensor::empty(p->local_shape, Purpose::kWeights);
    found->second.value.set<float>(moved);
  }
}

/// Final states [N,D] of a micro-batch with the stand-ins' weights.
std::vector<float> final_states(LoopedModel& model, const DocumentBatch& here, VisitParameters& visits,
                                const Interventions* held) {
  visits.begin(here);
  Tape tape = model.tape(Tape::Mode::kForwardOnly);
  tape.set_substitution(&visits);
  LoopedModel::Options options;
  options.use_capacity = false;
  options.observer = &visits;
  options.interventions = held;
  const Variable embedding = model.embed(tape, here.tokens, options);
  LoopState state = model.start(here.tokens, embedding);
  model.run_loops(tape, here.tokens, embedding, 0, model.active_loops(), options, state);
  return model.read_out(tape, here.tokens, embedding, state, options).value.get<float>();
}

/// Over the counted positions.
double product(const DocumentBatch& here, int64_t width, const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (int64_t r = 0; r < here.tokens.rows; ++r) {
    const auto first = static_cast<size_t>(r * here.tokens.sequence * width);
    const size_t end = first + static_cast<size_t>(here.targets[static_cast<size_t>(r)] * width);
    for (size_t i = first; i < end; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return sum;
}

}  // namespace

Gram read_backs(LoopedModel& model, const ProbeDocuments& documents, const std::vector<VisitGradient>& gradients,
                const std::vector<int64_t>& loops, const std::function<bool(const Parameter&)>& group) {
  const auto n = static_cast<int64_t>(loops.size());
  const Direction direction = direction_of(model, gradients, loops, group);
  Gram gram(n);
  if (direction.step == 0) return gram;
  for (const DocumentBatch& here : documents.batches()) {
    VisitParameters visits;
    visits.keep_choices(true);
    final_states(model, here, visits, nullptr);
    visits.keep_choices(false);
    Interventions held;
    held.choices = visits.choices();
    std::vector<std::vector<float>> changes;
    for (const int64_t loop : loops) {
      set_weights(visits, direction, loop, direction.step);
      std::vector<float> up = final_states(model, here, visits, &held);
      set_weights(visits, direction, loop, -direction.step);
      const std::vector<float> down = final_states(model, here, visits, &held);
      set_weights(visits, direction, loop, 0);
      for (size_t i = 0; i < up.size(); ++i)
        up[i] = static_cast<float>((static_cast<double>(up[i]) - static_cast<double>(down[i])) / (2 * direction.step));
      changes.push_back(std::move(up));
    }
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        gram.at(i, j) +=
            product(here, model.config().hidden_size, changes[static_cast<size_t>(i)], changes[static_cast<size_t>(j)]);
  }
  model.groups().world().host().all_reduce_sum(std::span<double>(gram.products));
  return gram;
}

}  // namespace heddle
