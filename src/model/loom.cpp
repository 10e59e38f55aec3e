#include "model/loom.h"

#include <cmath>

#include "comm/collective_guard.h"
#include "support/narrow.h"

namespace heddle {

std::string Loom::balance_bias_name(int64_t layer) {
  return fmt::format("core.{}.moe.balance_bias", layer);
}

Loom::Loom(const ModelConfig& config, ProcessGroups& groups, const Kernels& kernels)
    : config_(config), groups_(groups), kernels_(kernels) {
  const int64_t d = config.hidden_size, f = config.moe.intermediate, e = config.moe.experts;
  const int64_t query = config.query_heads * config.head_dim, kv = config.kv_heads * config.head_dim;
  const int64_t shared = config.moe.shared_experts * f;
  const ExpertRange owned = groups.owned_experts(e);
  embedding_ = &parameters_.add("embed_tokens.weight", {config.vocabulary_size, d});
  for (int64_t l = 0; l < config.layers; ++l) {
    const auto name = [l](const char* part) { return fmt::format("core.{}.{}.weight", l, part); };
    Layer layer{};
    layer.g_proj = &parameters_.add(name("attn.g_proj"), {query, d});
    layer.q_proj = &parameters_.add(name("attn.q_proj"), {query, d});
    layer.k_proj = &parameters_.add(name("attn.k_proj"), {kv, d});
    layer.v_proj = &parameters_.add(name("attn.v_proj"), {kv, d});
    layer.o_proj = &parameters_.add(name("attn.o_proj"), {d, query});
    MoeParameters& moe = layer.moe;
    moe.gate_proj = &parameters_.add_experts(name("moe.experts.gate_proj"), {e, f, d}, owned.first, owned.count);
    moe.up_proj = &parameters_.add_experts(name("moe.experts.up_proj"), {e, f, d}, owned.first, owned.count);
    moe.down_proj = &parameters_.add_experts(name("moe.experts.down_proj"), {e, d, f}, owned.first, owned.count);
    if (shared > 0) {
      moe.shared_gate_proj = &parameters_.add(name("moe.shared.gate_proj"), {shared, d});
      moe.shared_up_proj = &parameters_.add(name("moe.shared.up_proj"), {shared, d});
      moe.shared_down_proj = &parameters_.add(name("moe.shared.down_proj"), {d, shared});
    }
    layer.out_norm = &parameters_.add(name("moe.out_norm"), {d});
    moe.balance_bias = Tensor::zeros({e}, Purpose::kWeights);
    layers_.push_back(std::move(layer));
  }
  head_ = &parameters_.add("lm_head.weight", {config.vocabulary_size, d});
  // Routers stand last, by loop: those that a segment used are neighbours in the gradient arena.
  for (int64_t t = 0; t < config.loops; ++t)
    for (int64_t l = 0; l < config.layers; ++l)
      layers_[static_cast<size_t>(l)].moe.routers.push_back(
          &parameters_.add(fmt::format("core.{}.moe.routers.{}.weight", l, t), {e, d}));
  parameters_.allocate_values();
  row_marks_.resize(static_cast<size_t>(config.loops * config.layers));
}

const RotaryTable& Loom::rotary_table(int64_t positions) {
  if (positions > rotary_positions_) {
    rotary_ = make_rotary_table(positions, config_.head_dim, config_.rope_theta);
    rotary_positions_ = positions;
  }
  return rotary_;
}

Variable Loom::embed(Tape& tape, const TokenBatch& batch, const Options& options) {
  const Variable x = embedding(tape, batch.tokens, tape.parameter(*embedding_),
                               static_cast<float>(std::sqrt(static_cast<double>(config_.hidden_size))));
  if (options.observer != nullptr) options.observer->on_embedding(x.value);
  return x;
}

LoopState Loom::resume(const LoopCarry& carry) {
  LoopState state{Tape::constant(carry.state), {}};
  state.accumulators.n_global = Tape::constant(carry.n_global);
  state.accumulators.d_global = carry.d_global;
  return state;
}

LoopCarry Loom::detach(const LoopState& state) {
  return {state.state.value, state.accumulators.n_global.value, state.accumulators.d_global};
}

Variable Loom::attention_branch(Tape& tape, const Layer& layer, const TokenBatch& batch, const Variable& z) {
  const float eps = static_cast<float>(config_.norm_eps);
  const AttentionShape shape{
      batch.rows,       batch.sequence,   config_.query_heads,
      config_.kv_heads, config_.head_dim, static_cast<float>(1 / std::sqrt(static_cast<double>(config_.head_dim)))};
  const RotaryTable& table = rotary_table(batch.sequence);
  const Variable h = rmsnorm(tape, z, {}, eps);
  const Variable q =
      rotary(tape, linear(tape, h, tape.parameter(*layer.q_proj)), config_.head_dim, batch.position, table);
  const Variable k =
      rotary(tape, linear(tape, h, tape.parameter(*layer.k_proj)), config_.head_dim, batch.position, table);
  const Variable v = linear(tape, h, tape.parameter(*layer.v_proj));
  const Variable gate = linear(tape, h, tape.parameter(*layer.g_proj));
  const Variable heads = attention(tape, shape, q, k, v, batch.document_start);
  return linear(tape, sigmoid_gate(tape, gate, heads), tape.parameter(*layer.o_proj));
}

void Loom::run_loops(Tape& tape, const TokenBatch& batch, const Variable& embedding, int64_t first, int64_t last,
                     const Options& options, LoopState& loop_state) {
  const float eps = static_cast<float>(config_.norm_eps);
  const double gamma = config_.residual_scale(options.constants_loops > 0 ? options.constants_loops : config_.loops);
  Variable& z = loop_state.state;
  for (int64_t loop = first; loop < last; ++loop) {
    const double g = config_.reinjection_gate(loop + 1);
    if (loop > 0) z = linear_combination(tape, static_cast<float>(1 - g), z, static_cast<float>(g), embedding);
    loop_state.accumulators.reset_local();
    const int64_t router = std::min(loop, config_.loops - 1);
    for (int64_t l = 0; l < config_.layers; ++l) {
      const Layer& layer = layers_[static_cast<size_t>(l)];
      CollectivePlace& place = collective_place();
      place.loop = loop;
      place.layer = l;
      place.phase = "forward";
      const Variable attn = attention_branch(tape, layer, batch, z);
      z = looping_residual(tape, z, attn, static_cast<float>(gamma), config_.ema_beta_local, config_.ema_beta_global,
                           loop_state.accumulators);
      Routing routing;
      const Variable moe =
          moe_forward(tape, groups_, config_.moe, layer.moe, router, options.use_capacity, rmsnorm(tape, z, {}, eps),
                      options.observer != nullptr ? &routing : nullptr,
                      tape.recording() ? &row_marks_[static_cast<size_t>(router * config_.layers + l)] : nullptr);
      z = residual_add(tape, z, static_cast<float>(gamma), rmsnorm(tape, moe, tape.parameter(*layer.out_norm), eps));
      Tensor block_inverse_rms;
      z = rmsnorm(tape, z, {}, eps, &block_inverse_rms);
      if (options.observer != nullptr)
        options.observer->on_block(
            {loop, l, gamma, attn.value, loop_state.accumulators, moe.value, z.value, block_inverse_rms, routing});
    }
    Tensor inverse_rms;
    z = rmsnorm(tape, z, {}, eps, &inverse_rms);
    if (options.observer != nullptr) options.observer->on_loop_end(loop, z.value, inverse_rms);
  }
}

double Loom::loss_sum(Tape& tape, const Variable& state, const TokenBatch& batch, double gradient_scale) {
  return cross_entropy_head(tape, state, tape.parameter(*head_), batch.targets, {}, static_cast<float>(gradient_scale))
      .cross_entropy;
}

Tensor Loom::logits(const Tensor& state) {
  Tape tape(kernels_, Tape::Mode::kForwardOnly);
  return linear(tape, Tape::constant(state), tape.parameter(*head_)).value;
}

}  // namespace heddle
