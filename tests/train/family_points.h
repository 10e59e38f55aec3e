// Points of the model family, each tiny and with R = 5, that together hold everything that crosses loops.
#pragma once

#include <ostream>

#include "tests/train/tiny_training.h"

namespace heddle {

struct NamedPlan {
  const char* name;
  TrainingPlan plan;
};
inline void PrintTo(const NamedPlan& p, std::ostream* out) {
  *out << p.name;
}

/// A dense model without anything of LOOM's, to build on.
inline ModelConfig dense_model() {
  ModelConfig c = tiny_model();
  c.loops = 5;
  c.core_feed_forward = FeedForwardKind::kDense;
  c.dense_intermediate = 48;
  c.looping_residual = false;
  c.residual = ResidualScheme::kPlain;
  c.reinjection = Reinjection::kNone;
  c.norms.block = NormKind::kOff;
  c.norms.final = NormKind::kGain;
  return c;
}

inline std::vector<NamedPlan> family_points() {
  TrainingPlan loom;  // looping residual, experts, a router per loop, summed balance loss, z-loss
  loom.model.loops = 5;
  loom.model.moe.aux_loss = 0.02;
  loom.model.moe.aux_scope = AuxScope::kSummed;
  loom.model.moe.router_z_loss = 0.01;

  TrainingPlan capacity = loom;
  capacity.model.moe.capacity_factor = 1.1;
  capacity.model.moe.aux_scope = AuxScope::kLoop;

  TrainingPlan supervised;  // losses after several loops, with a coda and a soft cap
  supervised.model = dense_model();
  supervised.model.coda_layers = 1;
  supervised.model.reinjection = Reinjection::kAdditive;
  supervised.model.before_coda = BeforeCoda::kFull;
  supervised.model.residual = ResidualScheme::kLayerNormScaling;
  supervised.model.soft_cap = 5;
  supervised.model.logit_z_loss = 0.01;
  supervised.step.loop_weights = {0.1, 0.3, 0, 0.2, 0.7};

  TrainingPlan supervised_loom = loom;
  supervised_loom.step.loop_weights = {0.5, 0, 0.25, 0, 1};

  TrainingPlan lanes;  // hyper-connections, with experts
  lanes.model = dense_model();
  lanes.model.core_feed_forward = FeedForwardKind::kMoe;
  lanes.model.lanes = 3;
  lanes.model.looping_residual = true;
  lanes.model.conditioning = Conditioning::kEmbedding;

  TrainingPlan outer = loom;  // experts in prelude and coda, one router with a bias per loop, a learned alpha
  outer.model.prelude_layers = outer.model.coda_layers = 1;
  outer.model.outer_feed_forward = FeedForwardKind::kMoe;
  outer.model.moe.router = RouterSharing::kSharedBias;
  outer.model.moe.score = RouterScore::kSoftmax;
  outer.model.moe.balance_scope = BalanceScope::kLayerLoop;
  outer.model.reinjection = Reinjection::kBoundary;
  outer.model.reinjection_alpha_learned = true;
  outer.model.before_coda = BeforeCoda::kFull;

  TrainingPlan untied;  // a core per loop, linear re-injection, sandwich, modulation, noise
  untied.model = dense_model();
  untied.model.tied = false;
  untied.model.initial_state = InitialState::kNoise;
  untied.model.residual = ResidualScheme::kSandwichBranch;
  untied.model.reinjection = Reinjection::kLinear;
  untied.model.reinjection_order = InjectionOrder::kHe;
  untied.model.conditioning = Conditioning::kModulation;
  untied.model.conditioning_width = 8;
  untied.model.prelude_layers = 1;

  TrainingPlan decay;  // decay re-injection, DeepNorm, tied embeddings
  decay.model = dense_model();
  decay.model.initial_state = InitialState::kZero;
  decay.model.residual = ResidualScheme::kDeepNorm;
  decay.model.reinjection = Reinjection::kDecay;
  decay.model.embedding_tied = true;

  std::vector<NamedPlan> points{
      {"loom", loom},   {"capacity", capacity},   {"supervised", supervised}, {"supervised_loom", supervised_loom},
      {"lanes", lanes}, {"outer_experts", outer}, {"untied", untied},         {"decay", decay}};
  for (NamedPlan& p : points) {
    p.plan.model.validate();
    p.plan.optimizer.loops = p.plan.model.loops;
  }
  return points;
}

}  // namespace heddle
