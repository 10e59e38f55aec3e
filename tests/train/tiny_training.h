// A tiny model in training on some ranks, step by step, without files.
#pragma once

#include "tests/train/tiny_model.h"
#include "train/step.h"

namespace heddle {

struct TrainingPlan {
  ModelConfig model = tiny_model();
  OptimizerConfig optimizer{.learning_rate = 2e-3, .loops = 4};
  StepConfig step{.segment_loops = 2};
  int64_t global_batch = 8;
  int64_t sequence = 16;
  int64_t steps = 10;
  std::vector<int64_t> favoured;  ///< experts whose bias starts at +10
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
  Training(const TrainingPlan& p, Communicator& world, int expert_parallel, int64_t micro_batch)
      : plan(p),
        groups(world, expert_parallel),
        model(p.model, groups, cpu::kernels()),
        optimizer(p.optimizer, model.parameters(), groups, cpu::kernels()),
        trainer(model, optimizer, p.step),
        rows(micro_batch_rows(p.global_batch, micro_batch, world.rank(), world.size())) {
    model.initialise(5);
    model.parameters().allocate_gradients();
    favour(p.favoured);
  }

  /// Bias 10 for these experts and 0 for the others.
  void favour(const std::vector<int64_t>& experts) {
    for (int64_t l = 0; l < plan.model.layers; ++l) {
      model.balance_bias(l).fill_zero();
      for (const int64_t e : experts) model.balance_bias(l).f32()[e] = 10;
    }
  }

  std::vector<TokenBatch> batches(int64_t step) const {
    std::vector<TokenBatch> all;
    for (const RowRange range : rows) all.push_back(tiny_batch(range, static_cast<uint32_t>(step), plan.sequence));
    return all;
  }

  StepResult run(int64_t step) { return trainer.run(batches(step), 1, step); }

  TrainingPlan plan;
  ProcessGroups groups;
  Loom model;
  Optimizer optimizer;
  TrainStep trainer;
  std::vector<RowRange> rows;
};

}  // namespace heddle
