#include "model/looped_model.h"

#include <cmath>

#include "support/narrow.h"

namespace heddle {

LoopedModel::LoopedModel(const ModelConfig& config, ProcessGroups& groups, const Kernels& kernels, DType activations)
    : config_(config),
      groups_(groups),
      kernels_(kernels),
      activations_(activations),
      layer_function_(config_, groups),
      active_loops_(config.loops) {
  const int64_t d = config_.hidden_size;
  embedding_ = &parameters_.add("embed_tokens.weight", {config_.vocabulary_size, d});
  embedding_norm_ = make_norm(config_.norms.embedding, "embed_norm.weight", d);
  for (int64_t i = 0; i < config_.prelude_layers; ++i)
    prelude_.push_back(make_layer(fmt::format("prelude.{}.", i), config_.outer_moe()));
  for (int64_t t = 0; t < config_.stored_cores(); ++t) {
    std::vector<Layer>& core = cores_.emplace_back();
    for (int64_t l = 0; l < config_.layers; ++l)
      core.push_back(
          make_layer(config_.tied ? fmt::format("core.{}.", l) : fmt::format("core.{}.{}.", t, l), config_.core_moe()));
  }
  make_boundary();
  for (int64_t i = 0; i < config_.coda_layers; ++i)
    coda_.push_back(make_layer(fmt::format("coda.{}.", i), config_.outer_moe()));
  final_norm_ = make_norm(config_.norms.final, "final_norm.weight", d);
  head_ = config_.embedding_tied ? embedding_ : &parameters_.add("lm_head.weight", {config_.vocabulary_size, d});
  make_routers();
  assign_roles();
  parameters_.allocate_values();
  if (activations_ == DType::kBfloat16)
    parameters_.allocate_narrow(
        [this](const Parameter& p) { return p.role == Role::kMatrix || p.role == Role::kHead || &p == head_; });
  row_marks_.resize(at(config_.prelude_layers + config_.loops * config_.layers + config_.coda_layers));
}

Norm LoopedModel::make_norm(NormKind kind, const std::string& name, int64_t width) {
  return {kind, kind == NormKind::kGain ? &parameters_.add(name, {width}) : nullptr};
}

Layer LoopedModel::make_layer(const std::string& prefix, bool experts) {
  const int64_t d = config_.hidden_size, wide = config_.dense_intermediate;
  const NormPlaces& norms = config_.norms;
  Layer layer;
  make_attention(layer, prefix);
  layer.attention_norm = make_norm(norms.pre, prefix + "attn_norm.weight", d);
  layer.feed_forward_norm = make_norm(norms.pre, prefix + "ffn_norm.weight", d);
  if (config_.residual == ResidualScheme::kDeepNorm || config_.residual == ResidualScheme::kSandwichOuter ||
      config_.residual == ResidualScheme::kSandwichBranch) {
    layer.attention_post_norm = make_norm(norms.post, prefix + "attn_post_norm.weight", d);
    layer.feed_forward_post_norm = make_norm(norms.post, prefix + "ffn_post_norm.weight", d);
  }
  if (experts) {
    make_experts(layer, prefix, config_.tied && prefix.starts_with("core."));
  } else {
    if (config_.activation == DenseActivation::kSwiglu)
      layer.gate_proj = &parameters_.add(prefix + "mlp.gate_proj.weight", {wide, d});
    layer.up_proj = &parameters_.add(prefix + "mlp.up_proj.weight", {wide, d});
    layer.down_proj = &parameters_.add(prefix + "mlp.down_proj.weight", {d, wide});
  }
  layer.block_norm = make_norm(norms.block, prefix + "block_norm.weight", d);
  return layer;
}

void LoopedModel::make_attention(Layer& layer, const std::string& prefix) {
  const int64_t d = config_.hidden_size;
  const int64_t query = config_.query_heads * config_.head_dim, kv = config_.kv_heads * config_.head_dim;
  const auto add = [&](const char* part, Shape shape) {
    return &parameters_.add(fmt::format("{}attn.{}.weight", prefix, part), std::move(shape));
  };
  if (config_.output_gate) layer.g_proj = add("g_proj", {query, d});
  layer.q_proj = add("q_proj", {query, d});
  layer.k_proj = add("k_proj", {kv, d});
  layer.v_proj = add("v_proj", {kv, d});
  layer.o_proj = add("o_proj", {d, query});
  layer.query_norm = make_norm(config_.norms.query_key, prefix + "attn.q_norm.weight", config_.head_dim);
  layer.key_norm = make_norm(config_.norms.query_key, prefix + "attn.k_norm.weight", config_.head_dim);
}

void LoopedModel::make_experts(Layer& layer, const std::string& prefix, bool rows_by_loop) {
  const int64_t d = config_.hidden_size, f = config_.moe.intermediate, e = config_.moe.experts;
  const int64_t shared = config_.moe.shared_experts;
  const ExpertRange owned = groups_.owned_experts(e);
  const auto name = [&](const char* part) { return fmt::format("{}moe.{}.weight", prefix, part); };
  MoeParameters& moe = layer.moe;
  moe.gate_proj = &parameters_.add_experts(name("experts.gate_proj"), {e, f, d}, owned.first, owned.count);
  moe.up_proj = &parameters_.add_experts(name("experts.up_proj"), {e, f, d}, owned.first, owned.count);
  moe.down_proj = &parameters_.add_experts(name("experts.down_proj"), {e, d, f}, owned.first, owned.count);
  if (shared > 0) {
    moe.shared_gate_proj = &parameters_.add(name("shared.gate_proj"), {shared * f, d});
    moe.shared_up_proj = &parameters_.add(name("shared.up_proj"), {shared * f, d});
    moe.shared_down_proj = &parameters_.add(name("shared.down_proj"), {d, shared * f});
  }
  layer.moe_out_norm = make_norm(config_.norms.moe_out, prefix + "moe.out_norm.weight", d);
  const bool rows = rows_by_loop && config_.moe.balance_scope == BalanceScope::kLayerLoop;
  moe.balance_bias = Tensor::zeros(rows ? Shape{config_.loops, e} : Shape{e}, Purpose::kWeights);
  layer.stored_moe = stored_moe_layers();
  moe_layers_.push_back({prefix.substr(0, prefix.size() - 1), nullptr});
}

void LoopedModel::make_boundary() {
  const int64_t d = config_.hidden_size, h = config_.lanes, m = config_.conditioning_width;
  loop_norm_ = make_norm(config_.norms.loop_end, "loop_norm.weight", d);
  if (config_.reinjection == Reinjection::kLinear) reinject_weight_ = &parameters_.add("reinject.weight", {d, 2 * d});
  if (config_.reinjection == Reinjection::kDecay) {
    reinject_weight_ = &parameters_.add("reinject.weight", {d, d});
    reinject_dt_ = &parameters_.add("reinject.dt_bias", {d});
    reinject_a_ = &parameters_.add("reinject.A_log", {d});
  }
  if (config_.reinjection == Reinjection::kBoundary && config_.reinjection_alpha_learned)
    reinject_alpha_ = &parameters_.add("reinject.alpha", {1});
  if (h > 0) {
    lane_read_ = &parameters_.add("hyper.read", {config_.loops, h});
    lane_mix_ = &parameters_.add("hyper.mix", {config_.loops, h, h});
    lane_write_ = &parameters_.add("hyper.write", {config_.loops, h});
  }
  if (config_.conditioning == Conditioning::kEmbedding)
    condition_embedding_ = &parameters_.add("condition.embedding", {config_.loops, d});
  if (config_.conditioning == Conditioning::kModulation) {
    condition_in_ = &parameters_.add("condition.in.weight", {m, d});
    condition_loop_ = &parameters_.add("condition.loop", {config_.loops, m});
    condition_out_ = &parameters_.add("condition.out.weight", {2 * d, m});
  }
}

/// Routers stand last, by loop: those that a segment used are neighbours in the gradient arena.
void LoopedModel::make_routers() {
  const int64_t d = config_.hidden_size, e = config_.moe.experts;
  std::vector<Layer*> layers;
  for (Layer& layer : prelude_) layers.push_back(&layer);
  for (std::vector<Layer>& core : cores_)
    for (Layer& layer : core) layers.push_back(&layer);
  for (Layer& layer : coda_) layers.push_back(&layer);
  for (Layer* layer : layers)
    if (layer->stored_moe >= 0) moe_layers_[at(layer->stored_moe)].layer = layer;
  const auto of_tied_core = [&](const MoeLayer& layer) { return config_.tied && layer.name.starts_with("core."); };
  for (int64_t t = 0; t < config_.loops; ++t)
    for (MoeLayer& layer : moe_layers_) {
      const bool per_loop = of_tied_core(layer) && config_.moe.router == RouterSharing::kPerLoop;
      if (t == 0 || per_loop)
        layer.layer->moe.routers.push_back(
            &parameters_.add(fmt::format("{}.moe.routers.{}.weight", layer.name, t), {e, d}));
      if (of_tied_core(layer) && config_.moe.router == RouterSharing::kSharedBias)
        layer.layer->moe.router_biases.push_back(
            &parameters_.add(fmt::format("{}.moe.routers.{}.bias", layer.name, t), {e}));
    }
}

void LoopedModel::assign_roles() {
  const auto is_vector = [](const std::string& name) {
    return name.ends_with("norm.weight") || name.starts_with("hyper.") || name == "reinject.alpha" ||
           name == "reinject.dt_bias" || name == "reinject.A_log" || name.ends_with(".bias") ||
           name == "condition.loop" || name == "condition.embedding";
  };
  for (Parameter& p : parameters_.all()) {
    const bool router = p.name.find(".routers.") != p.name.npos;
    p.role = &p == embedding_    ? Role::kEmbedding
             : &p == head_       ? Role::kHead
             : is_vector(p.name) ? Role::kVector
             : router            ? Role::kRouter
                                 : Role::kMatrix;
    const bool of_one_loop = router && (config_.moe.router == RouterSharing::kPerLoop || p.role == Role::kVector);
    p.tied_core = config_.tied && p.name.starts_with("core.") && !of_one_loop;
    if (p.name.find(".shared.") != p.name.npos) {
      p.pieces = config_.moe.shared_experts;
      p.piece_axis = p.name.ends_with("down_proj.weight") ? 1 : 0;
    }
  }
}

LayerVisit LoopedModel::visit_of(const Tape& tape, StackPart part, int64_t loop, int64_t layer, const Layer& weights,
                                 const Options& options) {
  const int64_t before_core = config_.prelude_layers, core_visits = config_.loops * config_.layers;
  LayerVisit visit;
  visit.place = {part, loop, layer, weights.stored_moe};
  const Interventions* const changes = options.interventions;
  if (part == StackPart::kCore) visit.row = row_of(changes != nullptr ? changes->router_of(loop, layer) : loop);
  visit.constants_loops = constants_loops(options);
  visit.use_capacity = options.use_capacity;
  visit.losses = options.losses;
  visit.observer = options.observer;
  visit.interventions = changes;
  int64_t mark = layer;
  if (part == StackPart::kPrelude) visit.depth = layer + 1;
  if (part == StackPart::kCore) {
    visit.depth = before_core + loop * config_.layers + layer + 1;
    mark = before_core + std::min(loop, config_.loops - 1) * config_.layers + layer;
  }
  if (part == StackPart::kCoda) {
    visit.depth = before_core + visit.constants_loops * config_.layers + layer + 1;
    mark = before_core + core_visits + layer;
  }
  if (tape.recording()) visit.marks = &row_marks_[at(mark)];
  return visit;
}

Variable LoopedModel::embed(Tape& tape, const TokenBatch& batch, const Options& options) {
  parameters_.refresh_narrow(kernels_);
  const double factor = config_.embedding_scaled ? std::sqrt(static_cast<double>(config_.hidden_size)) : 1;
  Variable x = embedding_norm_(
      tape, embedding(tape, batch.tokens, tape.parameter(*embedding_), static_cast<float>(factor)), eps());
  if (options.observer != nullptr) options.observer->on_embedding(x.value);
  for (int64_t i = 0; i < config_.prelude_layers; ++i) {
    const Layer& layer = prelude_[at(i)];
    x = layer_function_.visit(tape, batch, layer, visit_of(tape, StackPart::kPrelude, 0, i, layer, options), x);
  }
  if (options.observer != nullptr) options.observer->on_prelude(x.value);
  return x;
}

Tensor LoopedModel::stored_as(const Tensor& x, DType type) const {
  if (x.dtype() == type) return x;
  Tensor copy = Tensor::empty(x.shape(), Purpose::kActivations, type);
  kernels_.scale(x.count(), 1, x.reals(), copy.reals());
  return copy;
}

LoopState LoopedModel::start(const TokenBatch& batch, const Variable& embedding) const {
  LoopState state;
  if (config_.initial_state == InitialState::kEmbedding) state.state = embedding;
  if (config_.initial_state == InitialState::kZero)
    state.state = Tape::constant(Tensor::zeros(embedding.value.shape(), Purpose::kActivations, activations_));
  if (config_.initial_state == InitialState::kNoise) {
    require(batch.noise.defined(), "the initial state is noise, and the batch brings none");
    state.state = Tape::constant(stored_as(batch.noise, activations_));
  }
  state.lanes.assign(at(config_.lanes), embedding);
  return state;
}

LoopState LoopedModel::resume(const LoopCarry& carry) {
  LoopState state{Tape::constant(carry.state), {}, {}};
  for (const Tensor& lane : carry.lanes) state.lanes.push_back(Tape::constant(lane));
  state.accumulators.n_global = Tape::constant(carry.n_global);
  state.accumulators.d_global = carry.d_global;
  return state;
}

LoopState LoopedModel::resume_with_leaves(const Tape& tape, const LoopCarry& carry) {
  LoopState state{tape.leaf(carry.state), {}, {}};
  for (const Tensor& lane : carry.lanes) state.lanes.push_back(tape.leaf(lane));
  if (carry.n_global.defined()) state.accumulators.n_global = tape.leaf(carry.n_global);
  state.accumulators.d_global = carry.d_global;
  return state;
}

LoopCarry LoopedModel::detach(const LoopState& state) {
  LoopCarry carry{state.state.value, {}, state.accumulators.n_global.value, state.accumulators.d_global};
  for (const Variable& lane : state.lanes) carry.lanes.push_back(lane.value);
  return carry;
}

void LoopedModel::run_loops(Tape& tape, const TokenBatch& batch, const Variable& embedding, int64_t first, int64_t last,
                            const Options& options, LoopState& state) {
  const Interventions* const changes = options.interventions;
  for (int64_t loop = first; loop < last; ++loop) {
    if (changes != nullptr && changes->skipped_loops.contains(loop)) continue;
    Variable modulation;
    Variable z = condition(tape, reinject(tape, state, embedding, loop), loop, modulation);
    if (options.observer != nullptr) options.observer->on_loop_input(loop, z.value);
    state.accumulators.reset_local();
    for (int64_t l = 0; l < config_.layers; ++l) {
      if (changes != nullptr && changes->skips_block(loop, l)) continue;
      const Layer& layer = core_layer(loop, l);
      LayerVisit visit = visit_of(tape, StackPart::kCore, loop, l, layer, options);
      if (config_.looping_residual) visit.accumulators = &state.accumulators;
      if (config_.conditioning == Conditioning::kModulation) visit.modulation = &modulation;
      z = layer_function_.visit(tape, batch, layer, visit, z);
    }
    Tensor inverse_rms;
    state.state = loop_norm_(tape, z, eps(), &inverse_rms);
    if (config_.lanes > 0) write_lanes(tape, state, loop);
    if (options.observer != nullptr) options.observer->on_loop_end(loop, state.state.value, inverse_rms);
  }
}

Variable LoopedModel::read_out(Tape& tape, const TokenBatch& batch, const Variable& embedding, const LoopState& state,
                               const Options& options) {
  Variable x = state.state;
  if (config_.lanes > 0) {
    x = state.lanes[0];
    for (size_t i = 1; i < state.lanes.size(); ++i) x = linear_combination(tape, 1, x, 1, state.lanes[i]);
  }
  if (config_.before_coda == BeforeCoda::kNorm) x = boundary(tape, x, embedding, false);
  if (config_.before_coda == BeforeCoda::kFull) x = inject(tape, x, embedding);
  if (options.observer != nullptr) options.observer->on_coda_input(x.value);
  for (int64_t i = 0; i < config_.coda_layers; ++i) {
    const Layer& layer = coda_[at(i)];
    x = layer_function_.visit(tape, batch, layer, visit_of(tape, StackPart::kCoda, 0, i, layer, options), x);
  }
  x = final_norm_(tape, x, eps());
  if (options.observer != nullptr) options.observer->on_final_state(x.value);
  return x;
}

HeadSums LoopedModel::loss(Tape& tape, const Variable& final_state, const TokenBatch& batch, double gradient_scale) {
  const HeadOptions options{static_cast<float>(config_.head_multiplier), static_cast<float>(config_.soft_cap),
                            static_cast<float>(config_.logit_z_loss)};
  return cross_entropy_head(tape, final_state, tape.parameter(*head_), batch.targets, options,
                            static_cast<float>(gradient_scale));
}

RouterDecision LoopedModel::decide_by_router(int64_t loop, int64_t layer, const Tensor& x) const {
  Tape none = tape(Tape::Mode::kForwardOnly);
  return heddle::decide_by_router(none, config_.moe, core_layer(loop, layer).moe, row_of(loop), x);
}

const Parameter* LoopedModel::router_of(int64_t loop, int64_t layer) const {
  const std::vector<Parameter*>& routers = core_layer(loop, layer).moe.routers;
  return routers.at(std::min(at(row_of(loop)), routers.size() - 1));
}

Tensor LoopedModel::lens(const Tensor& stream) {
  Tape tape(kernels_, Tape::Mode::kForwardOnly);
  return logits(final_norm_(tape, Tape::constant(stored_as(stream, DType::kFloat32)), eps()).value);
}

Tensor LoopedModel::logits(const Tensor& final_state) {
  Tape tape(kernels_, Tape::Mode::kForwardOnly);
  const Tensor state = stored_as(final_state, DType::kFloat32);
  const Tensor z = scale(tape, static_cast<float>(config_.head_multiplier),
                         linear(tape, Tape::constant(state), tape.parameter(*head_)))
                       .value;
  if (config_.soft_cap > 0) kernels_.soft_cap(z.count(), static_cast<float>(config_.soft_cap), z.f32(), z.f32());
  return z;
}

}  // namespace heddle
