// Which keys are read only under which others: the table behind "--growth.at has no effect: it needs ...". A key that
// is not here is read by every run. How files and flags are treated: Config::parse.
#include "train/train_config.h"

namespace heddle {

namespace {

struct KeyCondition {
  std::vector<std::string> keys;  ///< "muon." is the whole section
  const char* words;              ///< behind "it needs" and "choose"
  bool (*holds)(const TrainConfig&);
};

bool has_outer_layers(const ModelConfig& m) {
  return m.prelude_layers + m.coda_layers > 0;
}

bool has_post_norms(const ModelConfig& m) {
  return m.residual == ResidualScheme::kDeepNorm || m.residual == ResidualScheme::kSandwichOuter ||
         m.residual == ResidualScheme::kSandwichBranch;
}

/// A trained tensor outside of the decay set "matrices" (docs/model_family.md section 5).
bool has_vectors(const ModelConfig& m) {
  const NormPlaces& n = m.norms;
  for (const NormKind kind : {n.pre, n.block, n.loop_end, n.embedding, n.final, n.query_key})
    if (kind == NormKind::kGain) return true;
  return (n.post == NormKind::kGain && has_post_norms(m)) || (n.moe_out == NormKind::kGain && m.any_moe()) ||
         (m.core_moe() && m.moe.router == RouterSharing::kSharedBias) || m.reinjection == Reinjection::kDecay ||
         (m.reinjection == Reinjection::kBoundary && m.reinjection_alpha_learned) || m.lanes > 0 ||
         m.conditioning != Conditioning::kOff;
}

/// Whether a step may run loops beyond the first. A model of one loop may draw more.
bool has_later_loops(const TrainConfig& c) {
  return c.model.loops > 1 || c.loop_schedule.distribution != LoopDistribution::kFixed;
}

/// The boundary operator as it acts from loop 2 on and, with its embedding, before the coda.
bool uses_boundary(const TrainConfig& c) {
  return has_later_loops(c) || c.model.before_coda != BeforeCoda::kOff;
}
bool uses_boundary_embedding(const TrainConfig& c) {
  return has_later_loops(c) || c.model.before_coda == BeforeCoda::kFull;
}

constexpr const char* kLaterLoops = "model.loops above 1 or drawn loop counts";

bool by_matrix(const TrainConfig& c) {
  return c.optimizer.name == "muon" || c.optimizer.name == "muonh";
}

using Train = const TrainConfig&;
using Mode = BackPropagationMode;

const KeyCondition kKeyConditions[] = {
    {{"layout.exchange_chunks"}, "layout.expert_parallel above 1", [](Train c) { return c.expert_parallel > 1; }},
    {{"statistics.stride"}, "statistics.interval above 0", [](Train c) { return c.statistics_interval > 0; }},
    {{"run.validation_samples"}, "run.validation_interval above 0", [](Train c) { return c.validation_interval > 0; }},
    {{"model.noise_deviation"},
     "model.initial_state noise",
     [](Train c) { return c.model.initial_state == InitialState::kNoise; }},
    {{"norms.post"},
     "residual.scheme deepnorm, sandwich_outer or sandwich_branch",
     [](Train c) { return has_post_norms(c.model); }},
    {{"feed_forward.outer"},
     "model.prelude_layers or model.coda_layers above 0",
     [](Train c) { return has_outer_layers(c.model); }},
    {{"feed_forward.activation", "feed_forward.intermediate"},
     "feed_forward.core dense, or feed_forward.outer dense with layers outside of the core",
     [](Train c) { return !c.model.core_moe() || (has_outer_layers(c.model) && !c.model.outer_moe()); }},
    {{"residual.lambda", "residual.loops_power", "residual.layers_power"},
     "residual.scheme scaled",
     [](Train c) { return c.model.residual == ResidualScheme::kScaled; }},
    {{"residual.multiplier"},
     "another residual.scheme than scaled",
     [](Train c) { return c.model.residual != ResidualScheme::kScaled; }},
    {{"residual.deepnorm_power"},
     "residual.scheme deepnorm or initialisation.kind deepnorm",
     [](Train c) {
       return c.model.residual == ResidualScheme::kDeepNorm || c.model.initialisation == Initialisation::kDeepNorm;
     }},
    {{"residual.count_gradient_visits"},
     "residual.scheme deepnorm",
     [](Train c) { return c.model.residual == ResidualScheme::kDeepNorm; }},
    {{"residual.count_gradient_visits"},
     "backprop.mode truncated",
     [](Train c) { return c.step.back_propagation.mode == Mode::kTruncated; }},
    {{"residual.count_gradient_visits"},
     "backprop.loops below model.loops",
     [](Train c) { return c.step.back_propagation.loops < c.model.loops; }},
    {{"residual.ema_beta_local", "residual.ema_beta_global"},
     "residual.looping true",
     [](Train c) { return c.model.looping_residual; }},
    {{"reinjection.lambda"},
     "reinjection.kind convex",
     [](Train c) { return c.model.reinjection == Reinjection::kConvex; }},
    {{"reinjection.lambda"}, kLaterLoops, has_later_loops},
    {{"reinjection.alpha", "reinjection.alpha_learned", "reinjection.norm", "reinjection.inject", "reinjection.first"},
     "reinjection.kind boundary",
     [](Train c) { return c.model.reinjection == Reinjection::kBoundary; }},
    {{"reinjection.alpha", "reinjection.alpha_learned"},
     "reinjection.inject true or reinjection.first alpha_e",
     [](Train c) { return c.model.reinjection_inject || c.model.reinjection_first == FirstInjection::kAlphaE; }},
    {{"reinjection.alpha", "reinjection.alpha_learned"},
     "model.loops above 1, drawn loop counts, reinjection.before_coda full or reinjection.first alpha_e",
     [](Train c) { return uses_boundary_embedding(c) || c.model.reinjection_first == FirstInjection::kAlphaE; }},
    {{"reinjection.norm"},
     "model.loops above 1, drawn loop counts, or reinjection.before_coda full or norm",
     uses_boundary},
    {{"reinjection.inject"},
     "model.loops above 1, drawn loop counts, or reinjection.before_coda full",
     uses_boundary_embedding},
    {{"reinjection.order"},
     "reinjection.kind linear",
     [](Train c) { return c.model.reinjection == Reinjection::kLinear; }},
    {{"conditioning.width"},
     "conditioning.kind modulation",
     [](Train c) { return c.model.conditioning == Conditioning::kModulation; }},
    {{"initialisation.embedding_std", "initialisation.uniform_scale"},
     "initialisation.kind exponents",
     [](Train c) { return c.model.initialisation == Initialisation::kExponents; }},
    {{"moe.", "norms.moe_out", "train.balance_rate"},
     "feed_forward.core moe, or feed_forward.outer moe with layers outside of the core",
     [](Train c) { return c.model.any_moe(); }},
    {{"moe.router", "moe.balance_scope"}, "feed_forward.core moe", [](Train c) { return c.model.core_moe(); }},
    {{"moe.router", "moe.balance_scope"}, "model.tied true", [](Train c) { return c.model.tied; }},
    {{"moe.balance_scope"}, "train.balance_rate above 0", [](Train c) { return c.step.balance_rate > 0; }},
    {{"moe.aux_scope"}, "moe.aux_loss above 0", [](Train c) { return c.model.moe.aux_loss > 0; }},
    {{"moe.capacity_scope"}, "moe.capacity_factor above 0", [](Train c) { return c.model.moe.capacity_factor > 0; }},
    {{"backprop.loops"},
     "backprop.mode checkpointed, truncated or segmented",
     [](Train c) { return c.step.back_propagation.mode != Mode::kFull; }},
    {{"backprop.step_per_segment"},
     "backprop.mode segmented",
     [](Train c) { return c.step.back_propagation.mode == Mode::kSegmented; }},
    {{"loop_count.low"},
     "loop_count.distribution uniform",
     [](Train c) { return c.loop_schedule.distribution == LoopDistribution::kUniform; }},
    {{"loop_count.high"},
     "loop_count.distribution uniform or poisson",
     [](Train c) { return c.loop_schedule.distribution != LoopDistribution::kFixed; }},
    {{"loop_count.sigma"},
     "loop_count.distribution poisson",
     [](Train c) { return c.loop_schedule.distribution == LoopDistribution::kPoisson; }},
    {{"growth.at", "growth.rewarm_steps"},
     "growth.initial_loops above 0",
     [](Train c) { return c.loop_schedule.growth_initial_loops > 0; }},
    {{"optimizer.beta1", "optimizer.beta2", "optimizer.eps"},
     "optimizer.name adamw, muon or muonh",
     [](Train c) { return c.optimizer.name != "sgd"; }},
    {{"optimizer.momentum"}, "optimizer.name sgd", [](Train c) { return c.optimizer.name == "sgd"; }},
    {{"optimizer.decay"}, "optimizer.weight_decay above 0", [](Train c) { return c.optimizer.weight_decay > 0; }},
    {{"optimizer.decay"},
     "a norm of kind gain or another trained vector",
     [](Train c) { return has_vectors(c.model); }},
    {{"optimizer.head_rate"}, "embedding.tied false", [](Train c) { return !c.model.embedding_tied; }},
    {{"optimizer.gain_rate"},
     "a norm of kind gain or another trained vector",
     [](Train c) { return has_vectors(c.model); }},
    {{"optimizer.tied_rate_power"}, "model.tied true", [](Train c) { return c.model.tied; }},
    {{"optimizer.tied_rate_power"}, "model.loops above 1", [](Train c) { return c.model.loops > 1; }},
    {{"muon."}, "optimizer.name muon or muonh", by_matrix},
    {{"muon.weight_decay", "muon.cautious"}, "optimizer.name muon", [](Train c) { return c.optimizer.name == "muon"; }},
    {{"muon.cautious"}, "muon.weight_decay above 0", [](Train c) { return c.optimizer.muon.weight_decay > 0; }},
    {{"muon.ns_eps"},
     "muon.orthogonalise newton_schulz",
     [](Train c) { return c.optimizer.muon.orthogonalise == "newton_schulz"; }},
    {{"muon.momentum_start"},
     "muon.momentum_steps above 0",
     [](Train c) { return c.optimizer.muon.momentum_steps > 0; }},
    {{"muon.momentum_steps"}, "a muon.momentum_start", [](Train c) { return c.optimizer.muon.momentum_start != -1; }},
    {{"muon.routers"},
     "feed_forward.core moe, or feed_forward.outer moe with layers outside of the core",
     [](Train c) { return c.model.any_moe(); }},
    {{"schedule.decay_ratio"}, "schedule.name wsd", [](Train c) { return c.schedule.name == "wsd"; }},
    {{"schedule.min_ratio"},
     "schedule.name cosine or linear, or schedule.decay_ratio above 0",
     [](Train c) { return c.schedule.name != "wsd" || c.schedule.decay_ratio > 0; }},
};

}  // namespace

void TrainConfig::declare_conditions(Config& config) const {
  for (const KeyCondition& row : kKeyConditions)
    config.add_condition(row.keys, row.words, [this, holds = row.holds] { return holds(*this); });
}

}  // namespace heddle
