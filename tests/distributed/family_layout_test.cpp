// Points of the family beyond LOOM at every layout: experts in prelude, core and coda, losses on routers,
// recomputation, untied cores, growth and random loops give what one rank gives.
#include <gtest/gtest.h>

#include <set>

#include "tests/distributed/same_training.h"

namespace heddle {
namespace {

int64_t share_of_batch(const TrainingPlan& plan) {
  return plan.global_batch / test_world().size();
}

/// Prelude and coda with experts, one router with a bias per loop, softmax scores, losses on routers, recomputation.
TrainingPlan experts_everywhere(AuxScope scope) {
  TrainingPlan plan;
  plan.steps = 5;
  plan.model.prelude_layers = plan.model.coda_layers = 1;
  plan.model.outer_feed_forward = FeedForwardKind::kMoe;
  plan.model.norms.final = NormKind::kGain;
  plan.model.moe.router = RouterSharing::kSharedBias;
  plan.model.moe.score = RouterScore::kSoftmax;
  plan.model.moe.balance_scope = BalanceScope::kLayerLoop;
  plan.model.moe.aux_loss = 0.05;
  plan.model.moe.aux_scope = scope;
  plan.model.moe.router_z_loss = 0.02;
  plan.model.validate();
  plan.step.back_propagation = {BackPropagationMode::kCheckpointed, 2, true};
  return plan;
}

TEST(FamilyLayout, ExpertsInAllPartsWithRouterLossesAndRecomputationEqualOneRank) {
  for (const AuxScope scope : {AuxScope::kLoop, AuxScope::kSummed}) {
    SCOPED_TRACE(kAuxScopes(scope));
    const TrainingPlan plan = experts_everywhere(scope);
    expect_same_training(plan, share_of_batch(plan), plan.global_batch);
  }
}

TEST(FamilyLayout, RouterLossesOverMicroBatchesEqualOneRankWithTheSameMicroSteps) {
  // A is a mean over micro-steps: the reference takes the rows of a micro-step of all ranks at once.
  TrainingPlan plan = experts_everywhere(AuxScope::kLoop);
  plan.steps = 3;
  plan.global_batch = 4 * test_world().size() + 1;  // the last micro-step is short, and some ranks have no row of it
  expect_same_training(plan, 2, 2 * test_world().size());
}

TEST(FamilyLayout, UntiedCoresWithMuonEqualOneRank) {
  TrainingPlan plan = plan_with("muon");
  plan.steps = 5;
  plan.model.tied = false;
  plan.model.validate();
  expect_same_training(plan, share_of_batch(plan), plan.global_batch);
}

TEST(FamilyLayout, TruncatedDenseLayersWithNoiseEqualOneRank) {
  TrainingPlan plan;
  plan.steps = 5;
  plan.model.core_feed_forward = FeedForwardKind::kDense;
  plan.model.dense_intermediate = 48;
  plan.model.prelude_layers = plan.model.coda_layers = 1;
  plan.model.initial_state = InitialState::kNoise;
  plan.model.noise_deviation = 3;  // large enough that rows of another's noise show far above rounding
  plan.model.conditioning = Conditioning::kModulation;
  plan.model.conditioning_width = 8;
  plan.model.norms.query_key = NormKind::kGain;
  plan.step.back_propagation = {BackPropagationMode::kTruncated, 2, true};
  // A linear operator starts by leaving the state out, an additive one lets the noise through from the first step on.
  for (const Reinjection reinjection : {Reinjection::kAdditive, Reinjection::kLinear}) {
    SCOPED_TRACE(kReinjections(reinjection));
    plan.model.reinjection = reinjection;
    plan.model.validate();
    expect_same_training(plan, share_of_batch(plan), plan.global_batch);
  }
}

TEST(FamilyLayout, GrowthEqualsOneRank) {
  for (const bool tied : {true, false}) {
    SCOPED_TRACE(tied ? "tied" : "untied");
    TrainingPlan plan = plan_with("muonh");
    plan.steps = 5;
    plan.model.tied = tied;
    plan.model.validate();
    plan.step.back_propagation = {};
    plan.loops.growth_initial_loops = 2;
    plan.loops.growth_step = 3;
    expect_same_training(plan, share_of_batch(plan), plan.global_batch);
  }
}

TEST(FamilyLayout, RandomLoopsAreTheSameOnAllRanks) {
  for (const LoopDistribution distribution : {LoopDistribution::kUniform, LoopDistribution::kPoisson}) {
    TrainingPlan plan;
    plan.steps = 6;
    plan.loops.distribution = distribution;
    plan.loops.low = 1;
    plan.loops.high = 6;
    std::set<int64_t> seen;
    for (int64_t step = 1; step <= plan.steps; ++step)
      seen.insert(LoopSchedule(plan.loops, plan.model.loops, 5).loops(step));
    EXPECT_GT(seen.size(), 2U) << "nothing random to see";
    expect_same_training(plan, share_of_batch(plan), plan.global_batch);
    plan.step.back_propagation = {BackPropagationMode::kCheckpointed, 2, true};
    expect_same_training(plan, 1, plan.global_batch);
  }
}

}  // namespace
}  // namespace heddle
