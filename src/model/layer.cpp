#include "model/layer.h"

#include <cmath>

#include "comm/collective_guard.h"

namespace heddle {

Variable Norm::operator()(Tape& tape, const Variable& x, float eps, Tensor* inverse_rms, int64_t width) const {
  if (kind == NormKind::kOff) return x;
  return rmsnorm(tape, x, gain == nullptr ? Variable{} : tape.parameter(*gain), eps, inverse_rms, width);
}

const RotaryTable& LayerFunction::rotary_table(int64_t positions) {
  if (positions > rotary_positions_) {
    rotary_ = make_rotary_table(positions, config_.head_dim, config_.rope_theta);
    rotary_positions_ = positions;
  }
  return rotary_;
}

double LayerFunction::branch_scale(int64_t constants_loops) const {
  return config_.residual == ResidualScheme::kScaled ? config_.residual_scale(constants_loops)
                                                     : config_.residual_multiplier;
}

Variable LayerFunction::branch_input(Tape& tape, const Norm& norm, const LayerVisit& visit, const Variable& x) const {
  Variable input = norm(tape, x, eps());
  if (visit.modulation != nullptr) input = modulate(tape, input, *visit.modulation);
  if (config_.residual != ResidualScheme::kLayerNormScaling) return input;
  return scale(tape, static_cast<float>(1 / std::sqrt(static_cast<double>(visit.depth))), input);
}

Variable LayerFunction::attention_branch(Tape& tape, const TokenBatch& batch, const Layer& layer,
                                         const Variable& input) {
  const int64_t width = config_.head_dim;
  const AttentionShape shape{
      batch.rows,       batch.sequence, config_.query_heads,
      config_.kv_heads, width,          static_cast<float>(1 / std::sqrt(static_cast<double>(width)))};
  const RotaryTable& table = rotary_table(batch.sequence);
  const auto positioned = [&](Parameter& weight, const Norm& norm) {
    const Variable heads = norm(tape, linear(tape, input, tape.parameter(weight)), eps(), nullptr, width);
    return rotary(tape, heads, width, batch.position, table);
  };
  const Variable q = positioned(*layer.q_proj, layer.query_norm);
  const Variable k = positioned(*layer.k_proj, layer.key_norm);
  const Variable v = linear(tape, input, tape.parameter(*layer.v_proj));
  Variable heads;
  if (layer.g_proj != nullptr) {
    const Variable gate = linear(tape, input, tape.parameter(*layer.g_proj));
    heads = sigmoid_gate(tape, gate, attention(tape, shape, q, k, v, batch.document_start));
  } else {
    heads = attention(tape, shape, q, k, v, batch.document_start);
  }
  return linear(tape, heads, tape.parameter(*layer.o_proj));
}

Variable LayerFunction::dense_branch(Tape& tape, const Layer& layer, const Variable& input) const {
  const Variable up = linear(tape, input, tape.parameter(*layer.up_proj));
  const Variable hidden =
      config_.activation == DenseActivation::kSwiglu
          ? swiglu(tape, linear(tape, input, tape.parameter(*layer.gate_proj)), up)
          : activation(tape, config_.activation == DenseActivation::kGelu ? Activation::kGelu : Activation::kRelu2, up);
  return linear(tape, hidden, tape.parameter(*layer.down_proj));
}

Variable LayerFunction::join(Tape& tape, const LayerVisit& visit, const Norm& post, const Variable& x,
                             const Variable& branch) const {
  const auto factor = static_cast<float>(branch_scale(visit.constants_loops));
  switch (config_.residual) {
    case ResidualScheme::kDeepNorm: {
      const auto alpha = static_cast<float>(config_.deepnorm_alpha(visit.constants_loops));
      return post(tape, linear_combination(tape, alpha, x, factor, branch), eps());
    }
    case ResidualScheme::kSandwichOuter:
      return post(tape, residual_add(tape, x, factor, branch), eps());
    case ResidualScheme::kSandwichBranch: {
      const Variable scaled = factor == 1.0F ? branch : scale(tape, factor, branch);
      return residual_add(tape, x, 1, post(tape, scaled, eps()));
    }
    case ResidualScheme::kPlain:
    case ResidualScheme::kScaled:
    case ResidualScheme::kLayerNormScaling:
      break;
  }
  return residual_add(tape, x, factor, branch);
}

Variable LayerFunction::visit(Tape& tape, const TokenBatch& batch, const Layer& layer, const LayerVisit& visit,
                              const Variable& x) {
  CollectivePlace& place = collective_place();
  place.loop = visit.place.loop;
  place.layer = visit.place.layer;
  place.phase = "forward";

  const Variable attn = attention_branch(tape, batch, layer, branch_input(tape, layer.attention_norm, visit, x));
  if (visit.observer != nullptr) visit.observer->on_attention(visit.place, attn.value);
  const double attention_scale = branch_scale(visit.constants_loops);
  Variable z = visit.accumulators != nullptr
                   ? looping_residual(tape, x, attn, static_cast<float>(attention_scale), config_.ema_beta_local,
                                      config_.ema_beta_global, *visit.accumulators)
                   : join(tape, visit, layer.attention_post_norm, x, attn);

  const Variable input = branch_input(tape, layer.feed_forward_norm, visit, z);
  Routing routing;
  Variable branch;
  if (layer.stored_moe >= 0) {
    if (visit.observer != nullptr) visit.observer->on_experts_input(visit.place, input.value);
    MoeVisit moe{{layer.stored_moe, visit.place.loop},
                 visit.row,
                 visit.use_capacity,
                 visit.losses,
                 visit.observer != nullptr ? &routing : nullptr,
                 visit.marks,
                 nullptr,
                 {}};
    if (visit.interventions != nullptr) {
      moe.choice = visit.interventions->choice_of(layer.stored_moe, visit.place.loop);
      moe.skipped_experts = visit.interventions->skipped_experts_of(layer.stored_moe);
    }
    branch = moe_forward(tape, groups_, config_.moe, layer.moe, moe, input);
  } else {
    branch = dense_branch(tape, layer, input);
  }
  if (visit.observer != nullptr) visit.observer->on_feed_forward(visit.place, branch.value);
  z = join(tape, visit, layer.feed_forward_post_norm, z, layer.moe_out_norm(tape, branch, eps()));
  Tensor inverse_rms;
  z = layer.block_norm(tape, z, eps(), &inverse_rms);
  if (visit.observer != nullptr)
    visit.observer->on_block({visit.place, attention_scale, visit.accumulators, z.value, inverse_rms, routing});
  return z;
}

}  // namespace heddle
