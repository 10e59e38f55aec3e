// Memory of a training step: the plan is what happens, schedules of back-propagation bound it as they should, and loops
// cost no parameters.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <filesystem>

#include "tests/data/temporary_folder.h"
#include "tests/train/family_points.h"
#include "train/checkpoint.h"
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
  config.statistics_interval = plan.look ? 1 : 0;
  return config;
}

/// Sizes at which activations outweigh everything else.
TrainConfig segmented(int64_t loops, int64_t segment_loops) {
  TrainConfig config;
  config.model.vocabulary_size = 4096;
  config.model.loops = loops;
  config.statistics_interval = 0;  // the formulas are those of a step without a look
  if (segment_loops > 0) config.step.back_propagation = in_segments(segment_loops);
  return config;
}

int64_t planned(const TrainConfig& config, Purpose purpose = Purpose::kActivations) {
  return plan_memory(config, config.model, 0, 1).peak[static_cast<size_t>(purpose)];
}

/// Most bytes of this process that were in memory so far.
int64_t resident() {
  rusage usage{};
  EXPECT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  return usage.ru_maxrss * 1024;
}

/// A step whose first values are float32 would keep all that follow from them in float32.
TEST(MemoryPlan, HasNarrowActivationsFromTheEmbeddingOn) {
  for (const int64_t segment_loops : {0, 1}) {
    TrainConfig config = segmented(3, segment_loops);
    const int64_t wide = planned(config);
    config.precision = "bfloat16";
    EXPECT_LT(planned(config), 3 * wide / 4) << segment_loops;
  }
}

TEST(MemoryPlan, IsWhatAStepWithEvenRoutingReaches) {
  struct Case {
    const char* optimizer;
    int64_t micro_batch;
    bool look = false;
  };
  for (const auto& [optimizer, micro_batch, look] :
       {Case{"adamw", 8}, Case{"adamw", 4}, Case{"adamw", 2}, Case{"muon", 8}, Case{"muonh", 4}, Case{"adamw", 8, true},
        Case{"adamw", 2, true}}) {
    TrainingPlan plan = plan_with(optimizer);
    plan.look = look;
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
  plan.look = true;
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
  config.model.vocabulary_size = 49152;
  config.model.hidden_size = 1280;
  config.model.layers = 15;
  config.model.loops = 3;
  config.model.query_heads = 20;
  config.model.kv_heads = 10;
  config.model.head_dim = 64;
  config.model.moe = {.experts = 30, .top_k = 6, .shared_experts = 2, .intermediate = 768};
  config.step.back_propagation = in_segments(3);
  config.global_batch = 1;
  config.micro_batch = 1;
  config.sequence = 64;
  const MemoryUse host = Allocator::host().use();
  const MemoryUse plan = plan_memory(config, config.model, 0, 1);
  EXPECT_GT(plan.total_peak, int64_t{20} << 30) << "weights, gradients and two moments in float32";
  EXPECT_EQ(Allocator::host().use().total_peak, host.total_peak);
}

TEST(MemoryPlan, OfManyRowsTakesLittleItself) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer touches memory of its own for pages that nobody touches";
#endif
  TrainConfig config;
  config.model.vocabulary_size = 256;
  config.model.hidden_size = 16;
  config.model.head_dim = 8;
  config.model.query_heads = config.model.kv_heads = 2;
  config.model.core_feed_forward = FeedForwardKind::kDense;
  config.global_batch = config.micro_batch = 40'000;
  const int64_t before = resident(), tokens = config.micro_batch * config.sequence;
  EXPECT_GT(plan_memory(config, config.model, 0, 1).total_peak, 64 * tokens);
  EXPECT_LT(resident() - before, 12 * tokens) << "only targets are looked at";
}

TEST(BatchMemory, WhatNoHostHoldsIsRefusedByArithmetic) {
  TrainConfig config;
  config.model.hidden_size = 1 << 20;
  config.global_batch = config.micro_batch = 1'000'000;
  config.sequence = 1 << 20;
  expect_error<UsageError>([&] { check_batch(config, config.model, 1, 1, Device{}); },
                           "the 1000000 sequences of a step take");
  config.global_batch = config.micro_batch = 1000;
  expect_error<UsageError>([&] { check_batch(config, config.model, 1, 1, Device{}); },
                           "states and their gradients of 1000 sequences in one layer take");
  config.micro_batch = 1;
  config.sequence = 16;
  EXPECT_NO_THROW(check_batch(config, config.model, 1, 1, Device{}));
}

TEST(BatchMemory, ManyRowsAreRefusedByWhatFewTake) {
  struct sysinfo machine {};
  ASSERT_EQ(sysinfo(&machine), 0);
  const int64_t host = static_cast<int64_t>(machine.totalram) * machine.mem_unit;
  TrainConfig config = segmented(4, 2);
  // States and their gradients alone would fit in half of it.
  config.global_batch = config.micro_batch = host / (16 * config.model.hidden_size * config.sequence);
  const int64_t before = resident();
  expect_error<UsageError>([&] { check_batch(config, config.model, 1, 1, Device{}); },
                           fmt::format("tensors of a step of {} sequences in a micro-batch take", config.micro_batch));
  EXPECT_LT(resident() - before, int64_t{64} << 20);
  config.global_batch = config.micro_batch = 64;
  EXPECT_NO_THROW(check_batch(config, config.model, 1, 1, Device{}));
  // The room for tensors is that of the GPU where there is one.
  Device gpu;
  gpu.description = "a small GPU";
  gpu.room_bytes = 100 << 20;
  gpu.memory_in_use = [] { return std::pair<int64_t, int64_t>(); };
  expect_error<UsageError>([&] { check_batch(config, config.model, 1, 1, gpu); },
                           "for a small GPU, which has room for 100.00 MiB");
  MemoryUse plan;
  plan.total_peak = 200 << 20;
  expect_error<UsageError>(
      [&] { check_memory(plan, 8, gpu); },
      "the tensors of a training step want 200.00 MiB per rank, 200.00 MiB for a small GPU, which");
  EXPECT_NO_THROW(check_memory(plan, 8, Device{}));
  plan.total_peak = int64_t{1} << 60;
  expect_error<UsageError>([&] { check_memory(plan, 8, Device{}); }, "for the 8 rank(s) of this host, which has room");
}

TEST(MemoryPlan, IsWhatAStepReachesUnderEverySchedule) {
  using Mode = BackPropagationMode;
  const auto world = make_single_communicator();
  for (const NamedPlan& point : family_points())
    for (const BackPropagation& schedule :
         {BackPropagation{}, BackPropagation{Mode::kCheckpointed, 2, true}, BackPropagation{Mode::kTruncated, 2, true},
          BackPropagation{Mode::kSegmented, 2, true}, BackPropagation{Mode::kSegmented, 2, false}}) {
      TrainingPlan plan = point.plan;
      const bool weighted = !plan.step.loop_weights.empty();
      if (schedule.mode == Mode::kTruncated && plan.model.lanes > 0) continue;
      if (schedule.mode == Mode::kSegmented && weighted) continue;
      SCOPED_TRACE(fmt::format("{}, {}", point.name, kBackPropagationModes(schedule.mode)));
      plan.step.back_propagation = schedule;
      plan.model.moe.gate = Gate::kUniform;
      plan.model.moe.capacity_factor = 0;
      const MemoryUse before = Allocator::host().use();
      Allocator::host().reset_peaks();
      Training training(plan, *world, 1, 4);
      training.run(1);
      const MemoryUse after = Allocator::host().use();
      const MemoryUse plan_of = plan_memory(config_of(plan, 4), plan.model, 0, 1);
      for (size_t p = 0; p < after.peak.size(); ++p)
        EXPECT_EQ(plan_of.peak[p], after.peak[p] - before.current[p]) << purpose_name(static_cast<Purpose>(p));
      EXPECT_EQ(plan_of.total_peak, after.total_peak - before.total);
    }
}

TEST(MemoryPlan, IsThatOfTheMostLoopsThatAStepCanDraw) {
  TrainingPlan plan;  // R 4
  plan.model.moe.gate = Gate::kUniform;
  plan.loops.distribution = LoopDistribution::kUniform;
  plan.loops.low = 1;
  plan.loops.high = 6;
  plan.step.back_propagation = {BackPropagationMode::kCheckpointed, 2, true};
  const auto world = make_single_communicator();
  const MemoryUse before = Allocator::host().use();
  Allocator::host().reset_peaks();
  Training training(plan, *world, 1, 4);
  int64_t largest = 0;
  for (int64_t step = 1; step <= 16; ++step) largest = std::max(largest, training.run(step).loops);
  ASSERT_EQ(largest, 6);
  const MemoryUse after = Allocator::host().use();
  TrainConfig config = config_of(plan, 4);
  config.step.largest_loops = 6;
  const MemoryUse plan_of = plan_memory(config, plan.model, 0, 1);
  EXPECT_EQ(plan_of.total_peak, after.total_peak - before.total);
}

/// A dense or a LOOM-like core whose activations outweigh everything else.
struct CoreKind {
  bool loom;
  int64_t layers;
};

/// Peak of its activations.
int64_t peak_of(const CoreKind& core, BackPropagation schedule, int64_t loops) {
  TrainConfig config;
  if (!core.loom) config.model = dense_model();
  config.model.vocabulary_size = 64;
  config.model.layers = core.layers;
  config.model.hidden_size = 64;
  config.model.loops = loops;
  config.statistics_interval = 0;  // the formulas are those of a step without a look
  config.global_batch = config.micro_batch = 4;
  config.sequence = 128;
  config.step.back_propagation = schedule;
  return planned(config);
}

TEST(ActivationMemory, AgainstLoopsUnderEverySchedule) {
  using Mode = BackPropagationMode;
  constexpr int64_t kTokens = 4 * 128, kWidth = 64, kLoops = 16, kShort = 2;
  for (const CoreKind& core : {CoreKind{true, 4}, CoreKind{true, 2}, CoreKind{false, 4}, CoreKind{false, 2}}) {
    SCOPED_TRACE(fmt::format("{}, {} layers", core.loom ? "LOOM" : "dense", core.layers));
    const auto full = [&](int64_t loops) { return static_cast<double>(peak_of(core, {}, loops)); };
    const auto under = [&](Mode mode, int64_t n, int64_t loops) {
      return static_cast<double>(peak_of(core, {mode, n, true}, loops));
    };
    // Full: every loop adds the same.
    const double of_one_loop = full(4) - full(3);
    EXPECT_GT(of_one_loop * (kLoops - 4), 0.6 * full(kLoops)) << "something else than loops fills the memory";
    for (const int64_t loops : {2, 8, 16})
      EXPECT_NEAR(full(loops) - full(loops - 1), of_one_loop, 0.01 * of_one_loop) << loops << " loops";
    // Truncated and segmented: flat beyond one segment. Two segments carry a state between them, so from two on.
    const double truncated = under(Mode::kTruncated, kShort, kShort + 1);
    const double segmented = under(Mode::kSegmented, kShort, 2 * kShort);
    EXPECT_LT(std::max(truncated, segmented), 1.25 * full(kShort));
    for (const int64_t loops : {5, 8, 16}) {
      EXPECT_NEAR(under(Mode::kTruncated, kShort, loops), truncated, 0.05 * truncated) << loops << " loops";
      EXPECT_NEAR(under(Mode::kSegmented, kShort, loops), segmented, 0.05 * segmented) << loops << " loops";
    }
    // Checkpointed, S = ceil(R / K) segments: S - 1 states in front of them (the first starts at the embedding), each
    // [N,D] float32, with the looping residual also the numerator of its global mean; and the larger of the last
    // segment of r = R - (S - 1) K loops with head and loss on top, full(r), and a recomputed one of K loops without.
    const double boundary = static_cast<double>(kTokens * kWidth * 4 * (core.loom ? 2 : 1));
    for (const int64_t segment : {1, 2, 4}) {
      const double recomputed = under(Mode::kCheckpointed, segment, segment + 1) - boundary;
      EXPECT_NEAR(recomputed, full(segment), 4 * boundary) << "a segment is what full back-propagation has of it";
      for (const int64_t loops : {4, 5, 7, 10, 16}) {
        const int64_t before = (loops + segment - 1) / segment - 1;
        const double last = full(loops - before * segment);
        const double formula = before == 0 ? last : std::max(last, recomputed) + static_cast<double>(before) * boundary;
        EXPECT_NEAR(under(Mode::kCheckpointed, segment, loops), formula, 0.01 * formula)
            << loops << " loops in segments of " << segment;
      }
    }
    EXPECT_LT(under(Mode::kCheckpointed, 4, kLoops), 0.5 * full(kLoops));
  }
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

TEST(LoopMemory, TheFormulaCountsTheTensorsOfEveryPoint) {
  const auto world = make_single_communicator();
  ProcessGroups groups(*world, 1);
  for (const NamedPlan& point : family_points()) {
    LoopedModel model(point.plan.model, groups, cpu::kernels());
    EXPECT_EQ(model.parameters().global_count(), count_parameters(point.plan.model).total()) << point.name;
  }
}

/// Bytes of a checkpoint after one step.
int64_t checkpoint_bytes(const TrainingPlan& plan, const std::string& folder) {
  const auto world = make_single_communicator();
  Training training(plan, *world, 1, 4);
  training.run(1);
  const CheckpointInfo info{
      .step = 1, .config = "", .tokenizer_kind = "", .tokenizer_fingerprint = "", .tokenizer = "", .data_hash = ""};
  return static_cast<int64_t>(std::filesystem::file_size(save_checkpoint(
      folder, 1, CheckpointWriter::kAuto, info, training.model, training.optimizer, training.trainer.spike_guard())));
}

TEST(LoopMemory, ATiedCoreWithASharedRouterCostsTheSameAtAnyLoopCount) {
  const TemporaryFolder folder;
  TrainingPlan plan;
  plan.step.back_propagation = {};
  plan.global_batch = 4;
  struct Sizes {
    int64_t parameters, weights, gradients, optimizer, checkpoint;
    bool operator==(const Sizes&) const = default;
  };
  const auto at = [&](int64_t loops, RouterSharing router) {
    plan.model.loops = plan.optimizer.loops = loops;
    plan.model.moe.router = router;
    const MemoryUse use = plan_memory(config_of(plan, 4), plan.model, 0, 1);
    const auto peak = [&](Purpose purpose) { return use.peak[static_cast<size_t>(purpose)]; };
    return Sizes{count_parameters(plan.model).total(), peak(Purpose::kWeights), peak(Purpose::kGradients),
                 peak(Purpose::kOptimizer), checkpoint_bytes(plan, folder.path("c"))};
  };
  const Sizes one = at(1, RouterSharing::kShared);
  for (const int64_t loops : {2, 4, 16}) EXPECT_TRUE(at(loops, RouterSharing::kShared) == one) << loops << " loops";

  // With a router per loop they alone are added: values, two moments, and HDF5's headers of these and of a step count.
  const Sizes four = at(4, RouterSharing::kPerLoop), sixteen = at(16, RouterSharing::kPerLoop);
  const int64_t tensors = 12 * plan.model.layers, values = tensors * plan.model.moe.experts * plan.model.hidden_size;
  EXPECT_EQ(sixteen.parameters - four.parameters, values);
  EXPECT_GE(sixteen.checkpoint - four.checkpoint, 3 * 4 * values);
  EXPECT_LE(sixteen.checkpoint - four.checkpoint, 3 * 4 * values + 4 * 600 * tensors);
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
