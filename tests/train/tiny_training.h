// A tiny model in training on some ranks, step by step, without files.
#pragma once

#include "tests/train/tiny_model.h"
#include "train/growth.h"
#include "train/loop_schedule.h"
#include "train/step.h"

namespace heddle {

/// Segments of so many loops, with an update after each.
inline BackPropagation in_segments(int64_t loops) {
  return {BackPropagationMode::kSegmented, loops, true};
}

struct TrainingPlan {
  ModelConfig model = tiny_model();
  OptimizerConfig optimizer{.learning_rate = 2e-3, .loops = 4};
  StepConfig step;           ///< in segments of two loops
  LoopScheduleConfig loops;  ///< random loops and growth, with nothing left to finish()
  int64_t global_batch = 8;
  int64_t sequence = 16;
  int64_t steps = 10;
  std::vector<int64_t> favoured;  ///< experts whose bias starts at +10
  bool look = false;              ///< at every step
  int64_t exchange_chunks = 1;

  TrainingPlan() { step.back_propagation = in_segments(2); }
};

/// A plan by the optimizer's name; with Muon's options, and with two shared experts, which lie in one tensor. Not
/// muon.cautious: whether an element decays jumps where its step is zero, so rounding could show.
inline TrainingPlan plan_with(const std::string& optimizer) {
  TrainingPlan plan;
  plan.optimizer.name = optimizer;
  plan.optimizer.zero_block = 64;
  if (optimizer == "sgd") plan.optimizer.learning_rate = 0.05;
  if (!optimizer.starts_with("muon")) return plan;
  plan.model.moe.shared_experts = 2;
  plan.optimizer.tied_rate_power = 0.5;
  plan.optimizer.decay = "matrices";
  plan.optimizer.muon = {.momentum_start = 0.85, .momentum_steps = 8, .row_normalise = true, .second_moment = 0.9};
  plan.optimizer.muon.routers = optimizer == "muonh";
  return plan;
}

struct Training {
  Training(const TrainingPlan& p, Communicator& world, int expert_parallel, int64_t micro_batch,
           const Kernels& kernels = cpu::kernels(), DType activations = DType::kFloat32)
      : plan(with_largest_loops(p)),
        groups(world, expert_parallel),
        model(plan.model, groups, kernels, activations),
        loops(plan.loops, plan.model.loops, 5),
        optimizer(plan.optimizer, model.parameters(), groups, kernels),
        trainer(model, optimizer, plan.step),
        rows(micro_batch_rows(p.global_batch, micro_batch, world.rank(), world.size())) {
    groups.set_exchange_chunks(plan.exchange_chunks);
    model.initialise(5);
    model.parameters().allocate_gradients();
    model.set_active_loops(loops.active(1));
    favour(p.favoured);
  }

  /// Bias 10 for these experts and 0 for the others.
  void favour(const std::vector<int64_t>& experts) {
    for (int64_t l = 0; l < model.stored_moe_layers(); ++l) {
      const Tensor& bias = model.balance_bias(l);
      std::vector<float> values(static_cast<size_t>(bias.count()), 0);
      for (int64_t row = 0; row < bias.count(); row += plan.model.moe.experts)
        for (const int64_t e : experts) values[static_cast<size_t>(row + e)] = 10;
      bias.set<float>(values);
    }
  }

  std::vector<TokenBatch> batches(int64_t step) const {
    const ScopedAllocator scope(memory);
    std::vector<TokenBatch> all;
    for (const RowRange range : rows) {
      all.push_back(tiny_batch(range, static_cast<uint32_t>(step), plan.sequence));
      add_noise(all.back(), plan.model, 5, NoiseUse::kTraining, step * plan.global_batch + range.first);
    }
    return all;
  }

  /// Growth, where it comes before this step and has not been yet.
  void prepare(int64_t step) {
    const ScopedAllocator scope(memory);
    if (loops.grows_at(step) && model.active_loops() < plan.model.loops) grow(model, optimizer);
  }

  StepResult run(int64_t step) {
    prepare(step);
    const ScopedAllocator scope(memory);
    return trainer.run(batches(step), {step, 1, loops.loops(step), plan.look});
  }

  Allocator& memory = Allocator::current();  ///< two trainings may be on two devices
  TrainingPlan plan;
  ProcessGroups groups;
  LoopedModel model;
  LoopSchedule loops;
  Optimizer optimizer;
  TrainStep trainer;
  std::vector<RowRange> rows;

 private:
  static TrainingPlan with_largest_loops(TrainingPlan p) {
    p.step.largest_loops = LoopSchedule(p.loops, p.model.loops, 5).largest();
    return p;
  }
};

}  // namespace heddle
