#include "moe/moe_layer.h"

#include <algorithm>

#include "moe/dispatch.h"

namespace heddle {

namespace {

void rig(const MoeConfig& config, const Tensor& index) {
  std::vector<int32_t> choices(static_cast<size_t>(index.count()));
  const int64_t period = config.gate == Gate::kUniform ? config.experts : config.top_k;
  for (size_t slot = 0; slot < choices.size(); ++slot)
    choices[slot] = static_cast<int32_t>(static_cast<int64_t>(slot) % period);
  index.set<int32_t>(choices);
}

/// Element `row` of a list, or its last.
template <typename T>
T& row_or_last(const std::vector<T*>& list, int64_t row) {
  return *list[static_cast<size_t>(std::min<int64_t>(row, static_cast<int64_t>(list.size()) - 1))];
}

Variable score(Tape& tape, const MoeConfig& config, const MoeParameters& p, const MoeVisit& visit, const Variable& x) {
  Variable logits = linear(tape, x, tape.parameter(row_or_last(p.routers, visit.router)));
  if (!p.router_biases.empty())
    logits = add_row(tape, logits, tape.parameter(row_or_last(p.router_biases, visit.router)), 0);
  if (visit.losses != nullptr) visit.losses->add_logits(tape, logits);
  return config.score == RouterScore::kSigmoid ? sigmoid(tape, logits) : softmax(tape, logits);
}

const float* balance_row(const MoeConfig& config, const MoeParameters& p, int64_t router) {
  const int64_t rows = p.balance_bias.count() / config.experts;
  return p.balance_bias.f32() + std::min(router, rows - 1) * config.experts;
}

Routing choose(Tape& tape, ProcessGroups& groups, const MoeConfig& config, const MoeParameters& p,
               const MoeVisit& visit, const Variable& scores, Variable* weights) {
  Routing routing;
  const int64_t n = scores.value.dim(0);
  routing.scores = scores.value;
  routing.index = Tensor::empty({n, config.top_k}, Purpose::kActivations, DType::kInt32);
  if (config.gate == Gate::kLearned)
    tape.kernels().top_k(n, config.experts, config.top_k, scores.value.f32(), balance_row(config, p, visit.router),
                         routing.index.i32());
  else
    rig(config, routing.index);
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
  return routing;
}

}  // namespace

Variable moe_forward(Tape& tape, ProcessGroups& groups, const MoeConfig& config, const MoeParameters& p,
                     const MoeVisit& visit, const Variable& x) {
  const Variable scores = score(tape, config, p, visit, x);
  Variable weights;
  Routing chosen = choose(tape, groups, config, p, visit, scores, &weights);

  Communicator& group = groups.expert_parallel();
  const auto plan =
      make_route_plan(tape.kernels(), group, config.experts, chosen.index, chosen.keep, chosen.weights, visit.marks);
  // The shared experts are computed while rows travel: their inner part on the way out, their outer part on the way
  // back.
  Dispatch to_experts(tape, group, plan, x);
  Variable shared;
  if (p.shared_gate_proj != nullptr)
    shared = swiglu(tape, linear(tape, x, tape.parameter(*p.shared_gate_proj)),
                    linear(tape, x, tape.parameter(*p.shared_up_proj)));
  const Variable rows = to_experts.finish(tape);
  const Variable hidden = swiglu(tape, grouped_linear(tape, rows, tape.parameter(*p.gate_proj), plan->expert_offsets),
                                 grouped_linear(tape, rows, tape.parameter(*p.up_proj), plan->expert_offsets));
  const Variable expert_out = grouped_linear(tape, hidden, tape.parameter(*p.down_proj), plan->expert_offsets);
  Combine to_tokens(tape, group, plan, expert_out, weights);
  Variable base;
  if (shared.value.defined()) base = linear(tape, shared, tape.parameter(*p.shared_down_proj));
  const Variable out = to_tokens.finish(tape, base);
  if (visit.routing != nullptr) *visit.routing = std::move(chosen);
  return out;
}

}  // namespace heddle
