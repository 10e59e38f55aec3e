// Memory of a training step: the plan is what happens, segments bound it, and loops cost no parameters.
#include <gtest/gtest.h>

#include "tests/train/tiny_training.h"
#include "train/memory_plan.h"

namespace heddle {
namespace {

constexpr auto kActivations = static_cast<size_t>(Purpose::kActivations);

TrainConfig config_of(const TrainingPlan& plan, int64_t micro_batch) {
  TrainConfig config;
  config.model = plan.model;
  config.optimizer = plan.optimizer;
  config.step = plan.step;
  config.global_batch = plan.global_batch;
  config.micro_batch = micro_batch;
  config.sequence = plan.sequence;
  return config;
}

/// Sizes at which activations outweigh everything else.
TrainConfig segmented(int64_t loops, int64_t segment_loops) {
  TrainConfig config;
  config.model.vocabulary_size = 4096;
  config.model.loops = loops;
  config.step.segment_loops = segment_loops;
  return config;
}

int64_t planned(const TrainConfig& config, Purpose purpose = Purpose::kActivations) {
  return plan_memory(config, config.model, 0, 1).peak[static_cast<size_t>(purpose)];
}

TEST(MemoryPlan, IsWhatAStepWithEvenRoutingReaches) {
  struct Case {
    const char* optimizer;
    int64_t micro_batch;
  };
  for (const auto& [optimizer, micro_batch] :
       {Case{"adamw", 8}, Case{"adamw", 4}, Case{"adamw", 2}, Case{"muon", 8}, Case{"muonh", 4}}) {
    TrainingPlan plan = plan_with(optimizer);
    plan.model.moe.gate = Gate::kUniform;
    const auto world = make_single_communicator();
    const MemoryUse before = Allocator::host().use();
    Allocator::host().reset_peaks();
    Training training(plan, *world, 1, micro_batch);
    training.run(1);
    training.run(2);
    const MemoryUse after = Allocator::host().use();
    const MemoryUse plan_of = plan_memory(config_of(plan, micro_batch), plan.model, 0, 1);
    for (size_t p = 0; p < after.peak.size(); ++p)
      EXPECT_EQ(plan_of.peak[p], after.peak[p] - before.current[p])
          << purpose_name(static_cast<Purpose>(p)) << ", micro-batch " << micro_batch << ", " << optimizer;
    EXPECT_EQ(plan_of.total_peak, after.total_peak - before.total) << "micro-batch " << micro_batch;
  }
}

TEST(MemoryPlan, ExtrapolatesOverManyMicroBatchesExactly) {
  // Eight micro-batches of one row are planned from three.
  TrainingPlan plan;
  plan.model.moe.gate = Gate::kUniform;
  const auto world = make_single_communicator();
  const MemoryUse before = Allocator::host().use();
  Allocator::host().reset_peaks();
  Training training(plan, *world, 1, 1);
  training.run(1);
  const MemoryUse after = Allocator::host().use();
  const MemoryUse plan_of = plan_memory(config_of(plan, 1), plan.model, 0, 1);
  EXPECT_EQ(plan_of.total_peak, after.total_peak - before.total);
}

TEST(MemoryPlan, NeedsNoMemoryItself) {
  // 1.6 billion parameters, planned in pages that nobody touches.
  TrainConfig config;
  config.model = {.vocabulary_size = 49152, .hidden_size = 1280, .layers = 15, .loops = 3, .query_heads = 20};
  config.model.kv_heads = 10;
  config.model.head_dim = 64;
  config.model.moe = {.experts = 30, .top_k = 6, .shared_experts = 2, .intermediate = 768};
  config.step.segment_loops = 3;
  config.global_batch = 1;
  config.micro_batch = 1;
  config.sequence = 64;
  const MemoryUse host = Allocator::host().use();
  const MemoryUse plan = plan_memory(config, config.model, 0, 1);
  EXPECT_GT(plan.total_peak, int64_t{20} << 30) << "weights, gradients and two moments in float32";
  EXPECT_EQ(Allocator::host().use().total_peak, host.total_peak);
}

TEST(SegmentMemory, DoesNotGrowWithLoops) {
  const int64_t six = planned(segmented(6, 3)), twelve = planned(segmented(12, 3));
  EXPECT_NEAR(static_cast<double>(twelve), static_cast<double>(six), 0.05 * static_cast<double>(six));
  EXPECT_GT(planned(segmented(12, 0)), 2 * planned(segmented(6, 0)) * 9 / 10) << "without segments it does";
}

TEST(SegmentMemory, CarriesTheStateAndTheAverageBetweenSegments) {
  // One segment carries nothing. Several carry, per micro-batch, the state z [N,D] and the numerator of the global
  // average [N,D], float32; while one is being replaced there are two of them.
  const TrainConfig config = segmented(3, 3);
  const int64_t micro_batches = config.global_batch / config.micro_batch;
  const int64_t one = 2 * config.micro_batch * config.sequence * config.model.hidden_size * 4;
  const int64_t grown = planned(segmented(12, 3)) - planned(config);
  EXPECT_LE(grown, (micro_batches + 1) * one)
      << "(micro-batches + 1) * 2 N D * 4 bytes = " << (micro_batches + 1) * one;
  EXPECT_GE(grown, 0);
}

TEST(LoopMemory, WeightsAndOptimizerGrowByTheRoutersOnly) {
  for (const Purpose purpose : {Purpose::kWeights, Purpose::kGradients, Purpose::kOptimizer}) {
    const int64_t copies = purpose == Purpose::kOptimizer ? 2 : 1;
    const auto at = [&](int64_t loops) { return planned(segmented(loops, 1), purpose); };
    const ModelConfig model = segmented(1, 1).model;
    const int64_t routers = model.layers * model.moe.experts * model.hidden_size * 4;
    // Blocks come in classes that are up to 1/8 too large.
    EXPECT_NEAR(static_cast<double>(at(16) - at(4)), static_cast<double>(12 * copies * routers),
                0.14 * static_cast<double>(at(16)))
        << purpose_name(purpose);
    EXPECT_LT(at(16), at(1) * 3 / 2) << purpose_name(purpose);
  }
}

TEST(StepMemory, AsksTheSystemForNothingWithFixedRouting) {
  TrainingPlan plan;
  plan.model.moe.gate = Gate::kUniform;
  const auto world = make_single_communicator();
  Training training(plan, *world, 1, 2);
  for (int64_t step = 1; step <= 3; ++step) training.run(step);
  const int64_t requests = Allocator::host().use().system_requests;
  for (int64_t step = 4; step <= 24; ++step) training.run(step);
  EXPECT_EQ(Allocator::host().use().system_requests, requests);
}

TEST(StepMemory, WhatNoStepNeedsGoesBack) {
  TrainingPlan plan;
  const auto world = make_single_communicator();
  Training training(plan, *world, 1, 2);
  for (int64_t step = 1; step <= 3; ++step) training.run(step);
  { const Tensor large = Tensor::empty({int64_t{1} << 22}, Purpose::kWorkspace); }
  const int64_t with = Allocator::host().use().reserved;
  for (int64_t step = 4; step <= Allocator::kIdleSteps + 4; ++step) training.run(step);
  EXPECT_LE(Allocator::host().use().reserved, with - (int64_t{1} << 24));
}

}  // namespace
}  // namespace heddle
