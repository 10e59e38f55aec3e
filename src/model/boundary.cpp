// What happens between loops: re-injection of the embedding, the lanes of hyper-connections, and what a loop is told of
// its number (docs/model_family.md section 2, "Reinjection" and "Hyper-connections"; section 9, "Loop conditioning").
#include "model/looped_model.h"

namespace heddle {

Variable LoopedModel::boundary(Tape& tape, const Variable& h, const Variable& e, bool with_embedding) const {
  const Variable r = config_.reinjection_norm ? rmsnorm(tape, h, {}, eps()) : h;
  if (!with_embedding) return r;
  if (reinject_alpha_ != nullptr) return add_weighted(tape, r, tape.parameter(*reinject_alpha_), 0, e);
  return linear_combination(tape, 1, r, static_cast<float>(config_.reinjection_alpha), e);
}

/// The operator as it acts from loop 2 on, and in front of the coda.
Variable LoopedModel::inject(Tape& tape, const Variable& h, const Variable& e) const {
  switch (config_.reinjection) {
    case Reinjection::kBoundary:
      return boundary(tape, h, e, config_.reinjection_inject);
    case Reinjection::kAdditive:
      return linear_combination(tape, 1, h, 1, e);
    case Reinjection::kLinear: {
      const Variable weight = tape.parameter(*reinject_weight_);
      return config_.reinjection_order == InjectionOrder::kEh ? linear_pair(tape, e, h, weight)
                                                              : linear_pair(tape, h, e, weight);
    }
    case Reinjection::kDecay:
      return decay_injection(tape, h, linear(tape, e, tape.parameter(*reinject_weight_)), tape.parameter(*reinject_dt_),
                             tape.parameter(*reinject_a_));
    case Reinjection::kNone:
    case Reinjection::kConvex:
      break;
  }
  return h;
}

Variable LoopedModel::reinject(Tape& tape, const LoopState& state, const Variable& e, int64_t loop) const {
  if (config_.lanes > 0)
    return weighted_sum(tape, state.lanes, tape.parameter(*lane_read_), row_of(loop) * config_.lanes);
  if (config_.reinjection == Reinjection::kConvex) {
    const auto g = static_cast<float>(config_.reinjection_gate(loop + 1));
    return loop == 0 ? state.state : linear_combination(tape, 1 - g, state.state, g, e);
  }
  if (config_.reinjection == Reinjection::kBoundary && loop == 0) {
    if (config_.reinjection_first == FirstInjection::kE) return e;
    if (reinject_alpha_ != nullptr) return weighted_sum(tape, std::span(&e, 1), tape.parameter(*reinject_alpha_), 0);
    const auto half = static_cast<float>(config_.reinjection_alpha / 2);
    return linear_combination(tape, half, e, half, e);
  }
  return inject(tape, state.state, e);
}

Variable LoopedModel::condition(Tape& tape, const Variable& u, int64_t loop, Variable& modulation) const {
  if (config_.conditioning == Conditioning::kEmbedding)
    return add_row(tape, u, tape.parameter(*condition_embedding_), row_of(loop));
  if (config_.conditioning == Conditioning::kModulation) {
    const Variable hidden = add_row(tape, linear(tape, rmsnorm(tape, u, {}, eps()), tape.parameter(*condition_in_)),
                                    tape.parameter(*condition_loop_), row_of(loop));
    modulation = linear(tape, activation(tape, Activation::kGelu, hidden), tape.parameter(*condition_out_));
  }
  return u;
}

void LoopedModel::write_lanes(Tape& tape, LoopState& state, int64_t loop) const {
  const std::vector<Variable> before = std::move(state.lanes);
  state.lanes.clear();
  for (int64_t i = 0; i < config_.lanes; ++i) {
    const int64_t row = row_of(loop) * config_.lanes + i;
    const Variable mixed = weighted_sum(tape, before, tape.parameter(*lane_mix_), row * config_.lanes);
    state.lanes.push_back(add_weighted(tape, mixed, tape.parameter(*lane_write_), row, state.state));
  }
}

}  // namespace heddle
