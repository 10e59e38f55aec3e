#include "model/model_config.h"

#include <algorithm>
#include <cmath>

namespace heddle {

const Names<NormKind> kNormKinds{"off", "plain", "gain"};
const Names<FeedForwardKind> kFeedForwardKinds{"dense", "moe"};
const Names<DenseActivation> kDenseActivations{"swiglu", "gelu", "relu2"};
const Names<InitialState> kInitialStates{"embedding", "zero", "noise"};
const Names<ResidualScheme> kResidualSchemes{"plain",    "scaled",         "layer_norm_scaling",
                                             "deepnorm", "sandwich_outer", "sandwich_branch"};
const Names<Reinjection> kReinjections{"none", "convex", "boundary", "additive", "linear", "decay"};
const Names<FirstInjection> kFirstInjections{"e", "alpha_e"};
const Names<InjectionOrder> kInjectionOrders{"eh", "he"};
const Names<BeforeCoda> kBeforeCoda{"off", "full", "norm"};
const Names<Conditioning> kConditionings{"off", "embedding", "modulation"};
const Names<Initialisation> kInitialisations{"loom", "isodepth", "exponents", "huginn", "deepnorm"};
const Names<RouterScore> kRouterScores{"sigmoid", "softmax"};
const Names<RouterSharing> kRouterSharings{"per_loop", "shared", "shared_bias"};
const Names<BalanceScope> kBalanceScopes{"layer", "layer_loop"};
const Names<AuxScope> kAuxScopes{"loop", "summed"};
const Names<CapacityScope> kCapacityScopes{"rank", "global"};
const Names<Gate> kGates{"learned", "uniform", "first"};

void ModelConfig::declare(Config& c) {
  const Limits size{1, 1 << 24, false, false}, count{1, 65536, false, false}, some{0, 65536, false, false};
  const Limits coefficient{0, 1e6, false, false}, factor{0, 1e6, true, false}, any{-1e6, 1e6, false, false};
  c.add("model.vocabulary_size", vocabulary_size, {0, 1 << 24, false, false},
        "vocabulary V; 0 takes that of the token store");
  c.add("model.hidden_size", hidden_size, size, "width D of the residual stream");
  c.add("model.prelude_layers", prelude_layers, some, "unshared layers P before the core");
  c.add("model.layers", layers, count, "stored layers L of the core");
  c.add("model.coda_layers", coda_layers, some, "unshared layers C after the core");
  c.add("model.loops", loops, {1, 1024, false, false}, "visits R of the core; every constant uses this count");
  c.add("model.tied", tied, "one core for all loops; false: a core for each");
  c.add("model.initial_state", initial_state, kInitialStates, "state before the first loop");
  c.add("model.noise_deviation", noise_deviation, factor, "standard deviation of the initial state noise");
  c.add("model.norm_eps", norm_eps, {0, 1, true, false}, "epsilon inside every RMSNorm");
  c.add("model.query_heads", query_heads, count, "query heads");
  c.add("model.kv_heads", kv_heads, count, "key-value heads; divides model.query_heads");
  c.add("model.head_dim", head_dim, {2, 4096, false, false}, "width of one head, even");
  c.add("model.rope_theta", rope_theta, {1, 1e12, true, false}, "base of the rotary angles");
  c.add("model.output_gate", output_gate, "sigmoid gate on the heads' output");
  c.add("norms.pre", norms.pre, kNormKinds, "before each branch");
  c.add("norms.post", norms.post, kNormKinds, "around the sum or after the branch, in deepnorm and sandwich schemes");
  c.add("norms.block", norms.block, kNormKinds, "after each layer");
  c.add("norms.loop_end", norms.loop_end, kNormKinds, "at the end of each loop");
  c.add("norms.embedding", norms.embedding, kNormKinds, "after the embedding");
  c.add("norms.final", norms.final, kNormKinds, "before the head");
  c.add("norms.moe_out", norms.moe_out, kNormKinds, "on the output of the experts");
  c.add("norms.query_key", norms.query_key, kNormKinds, "on each head of queries and keys");
  c.add("embedding.tied", embedding_tied, "the embedding is the head as well");
  c.add("embedding.scaled", embedding_scaled, "embedding times sqrt(D)");
  c.add("head.multiplier", head_multiplier, factor, "of the logits");
  c.add("head.soft_cap", soft_cap, coefficient, "logits become cap * tanh(logits / cap); 0: off");
  c.add("head.logit_z_loss", logit_z_loss, coefficient, "coefficient of the mean of logsumexp(logits)^2");
  c.add("feed_forward.core", core_feed_forward, kFeedForwardKinds, "feed-forward of the core");
  c.add("feed_forward.outer", outer_feed_forward, kFeedForwardKinds, "feed-forward of prelude and coda");
  c.add("feed_forward.activation", activation, kDenseActivations, "of a dense feed-forward");
  c.add("feed_forward.intermediate", dense_intermediate, size, "width of a dense feed-forward");
  c.add("residual.scheme", residual, kResidualSchemes, "how a branch enters the stream");
  c.add("residual.lambda", residual_lambda, {0, 1e3, true, false},
        "scaled: branches times lambda / (R^loops_power * L^layers_power)");
  c.add("residual.loops_power", residual_loops_power, any, "scaled: power of the loops");
  c.add("residual.layers_power", residual_layers_power, any, "scaled: power of the layers");
  c.add("residual.multiplier", residual_multiplier, factor, "branches times this, in every scheme but scaled");
  c.add("residual.deepnorm_power", deepnorm_power, {0, 4, false, false},
        "p: stream times (2N)^p, start values of v, o, up, down times (8N)^-p");
  c.add("residual.count_gradient_visits", count_gradient_visits,
        "deepnorm under truncated back-propagation: N counts the visits with gradient only");
  c.add("residual.looping", looping_residual, "running means of the attention branch replace it (LOOM)");
  c.add("residual.ema_beta_local", ema_beta_local, {0, 1, false, true}, "looping residual: decay over layers");
  c.add("residual.ema_beta_global", ema_beta_global, {0, 1, false, true}, "looping residual: decay over visits");
  c.add("reinjection.kind", reinjection, kReinjections, "how the embedding enters each loop");
  c.add("reinjection.lambda", reinjection_lambda, {0, 1e3, false, false},
        "convex: gate at loop t is lambda / (t sqrt(L)), at most 1");
  c.add("reinjection.alpha", reinjection_alpha, any, "boundary: factor of the embedding");
  c.add("reinjection.alpha_learned", reinjection_alpha_learned, "boundary: alpha is trained");
  c.add("reinjection.norm", reinjection_norm, "boundary: norm of the state");
  c.add("reinjection.inject", reinjection_inject, "boundary: false leaves the embedding out after loop 1");
  c.add("reinjection.first", reinjection_first, kFirstInjections, "boundary: what enters loop 1");
  c.add("reinjection.order", reinjection_order, kInjectionOrders, "linear: W [e ; h] or W [h ; e]");
  c.add("reinjection.before_coda", before_coda, kBeforeCoda, "the operator once more before the coda");
  c.add("hyper_connections.lanes", lanes, {0, 64, false, false}, "lanes at the loop boundary; 0: off");
  c.add("conditioning.kind", conditioning, kConditionings, "what a loop knows of its number");
  c.add("conditioning.width", conditioning_width, size, "modulation: width of its hidden layer");
  c.add("initialisation.kind", initialisation, kInitialisations, "start values (docs/model_family.md section 9)");
  c.add("initialisation.embedding_std", initial_embedding_std, factor, "exponents: deviation of the embedding");
  c.add("initialisation.uniform_scale", initial_uniform_scale, factor, "exponents: matrices within c / sqrt(D)");
  c.add("moe.experts", moe.experts, count, "routed experts E, in total over all ranks");
  c.add("moe.top_k", moe.top_k, {1, 64, false, false}, "routed experts per token k (shared ones not counted)");
  c.add("moe.shared_experts", moe.shared_experts, {0, 1024, false, false}, "experts that every token visits");
  c.add("moe.intermediate", moe.intermediate, size, "width F of one expert");
  c.add("moe.score", moe.score, kRouterScores, "scores of the experts from the router's logits");
  c.add("moe.router", moe.router, kRouterSharings, "a router per loop, one for all, or one with a bias per loop");
  c.add("moe.renormalise", moe.renormalise, "weights of the chosen sum to one");
  c.add("moe.balance_scope", moe.balance_scope, kBalanceScopes, "one balance bias per layer, or per layer and loop");
  c.add("moe.aux_loss", moe.aux_loss, coefficient,
        "coefficient of the balance loss E sum_i f_i p_i, taken over the tokens of a micro-step of all ranks, so "
        "ranks x train.micro_batch counts; 0: off");
  c.add("moe.aux_scope", moe.aux_scope, kAuxScopes, "balance loss of every visit, or of the means over visits");
  c.add("moe.router_z_loss", moe.router_z_loss, coefficient,
        "coefficient of the mean of logsumexp(router logits)^2; 0: off");
  c.add("moe.capacity_factor", moe.capacity_factor, {0, 1e4, false, false},
        "slots per expert = factor * tokens * k / E, tokens of one micro-batch or micro-step (moe.capacity_scope), so "
        "the "
        "layout counts; 0: dropless");
  c.add("moe.capacity_scope", moe.capacity_scope, kCapacityScopes,
        "tokens that compete for an expert's slots: one rank's micro-batch, or all ranks'");
  c.add("moe.gate", moe.gate, kGates,
        "learned: the router chooses; for benchmarks, uniform: all experts in turn, first: all tokens to the first k");
}

namespace {

void validate_moe(const MoeConfig& moe) {
  if (moe.top_k > moe.experts)
    throw UsageError(fmt::format("moe.top_k = {} with moe.experts = {}", moe.top_k, moe.experts),
                     fmt::format("moe.top_k can be 2 to {}", moe.experts));
  if (moe.top_k == 1 && moe.experts > 1 && moe.renormalise)
    throw UsageError("moe.top_k = 1 with renormalised weights: every weight is 1 and the router gets no gradient",
                     "use moe.top_k = 2 or more, or moe.renormalise false");
  const double never_binds = static_cast<double>(moe.experts) / static_cast<double>(moe.top_k);
  if (moe.capacity_factor >= never_binds)
    throw UsageError(
        fmt::format("moe.capacity_factor = {} never binds: from E/k = {} on an expert could take every token",
                    moe.capacity_factor, never_binds),
        "use 1 to 2, or 0 for dropless");
}

}  // namespace

void ModelConfig::validate() {
  if (any_moe()) validate_moe(moe);
  if (query_heads % kv_heads != 0)
    throw UsageError(fmt::format("model.kv_heads = {} does not divide model.query_heads = {}", kv_heads, query_heads),
                     "choose a divisor of model.query_heads");
  if (head_dim % 2 != 0)
    throw UsageError(fmt::format("model.head_dim = {} is odd; rotary positions pair its halves", head_dim),
                     fmt::format("use {}", head_dim + 1));
  if (norms.pre == NormKind::kOff || norms.post == NormKind::kOff)
    throw UsageError("norms.pre and norms.post cannot be off", "use plain or gain");
  const bool adds = residual == ResidualScheme::kPlain || residual == ResidualScheme::kScaled ||
                    residual == ResidualScheme::kLayerNormScaling;
  if (looping_residual && !adds)
    throw UsageError(fmt::format("residual.looping with residual.scheme = {}", kResidualSchemes(residual)),
                     "use plain, scaled or layer_norm_scaling, or residual.looping false");
  if (lanes > 0 && (reinjection != Reinjection::kNone || initial_state != InitialState::kEmbedding))
    throw UsageError("hyper_connections.lanes replace the re-injection and start from the embedding",
                     "set reinjection.kind none and model.initial_state embedding");
  if (before_coda == BeforeCoda::kNorm && reinjection != Reinjection::kBoundary)
    throw UsageError(
        fmt::format("reinjection.before_coda = norm with reinjection.kind = {}", kReinjections(reinjection)),
        "norm belongs to boundary");
  if (before_coda == BeforeCoda::kFull && (reinjection == Reinjection::kNone || reinjection == Reinjection::kConvex))
    throw UsageError(
        fmt::format("reinjection.before_coda = full with reinjection.kind = {}", kReinjections(reinjection)),
        "use off");
  if (!tied && moe.router == RouterSharing::kSharedBias && core_moe())
    throw UsageError("moe.router = shared_bias with model.tied false: each core has a router of its own",
                     "use moe.router per_loop or shared");
}

double ModelConfig::residual_scale(int64_t loop_count) const {
  return residual_lambda / (std::pow(static_cast<double>(loop_count), residual_loops_power) *
                            std::pow(static_cast<double>(layers), residual_layers_power));
}

double ModelConfig::reinjection_gate(int64_t t) const {
  if (t < 2) return 0;
  return std::clamp(reinjection_lambda / (static_cast<double>(t) * std::sqrt(static_cast<double>(layers))), 0.0, 1.0);
}

int64_t ModelConfig::deepnorm_depth(int64_t loop_count) const {
  const bool fewer = count_gradient_visits && gradient_loops > 0;
  return prelude_layers + (fewer ? std::min(gradient_loops, loop_count) : loop_count) * layers + coda_layers;
}

double ModelConfig::deepnorm_alpha(int64_t loop_count) const {
  return std::pow(2 * static_cast<double>(deepnorm_depth(loop_count)), deepnorm_power);
}

double ModelConfig::deepnorm_beta() const {
  return std::pow(8 * static_cast<double>(deepnorm_depth(loops)), -deepnorm_power);
}

}  // namespace heddle
