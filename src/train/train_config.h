// Every key of a training run, in one structure.
#pragma once

#include "device/device.h"
#include "model/model_config.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "train/checkpoint.h"
#include "train/loop_schedule.h"
#include "train/step.h"

namespace heddle {

struct TrainConfig {
  ModelConfig model;
  OptimizerConfig optimizer;
  StepConfig step;
  Schedule schedule;  ///< total_steps is train.steps
  LoopScheduleConfig loop_schedule;
  int64_t steps = 1000;
  int64_t global_batch = 16;  ///< sequences per step, over all ranks and micro-batches
  int64_t micro_batch = 8;    ///< sequences per rank and forward pass
  int64_t sequence = 256;     ///< tokens per sequence
  int64_t seed = 1;
  std::string store;  ///< token store
  bool document_mask = true;
  int64_t unique_tokens = 0;  ///< of the train part that are used; 0: all
  int64_t expert_parallel = 1;
  int64_t exchange_chunks = 1;
  int64_t gradient_bucket = 25;  ///< MiB
  std::string device = "auto";
  std::string precision = "float32";
  std::string directory;  ///< of the run
  bool resume = false;
  int64_t checkpoint_interval = 0;  ///< steps; 0: only at the end
  int64_t keep_checkpoints = 2;
  std::string checkpoint_writer = "auto";
  int64_t statistics_interval = 10;  ///< steps between looks at the loops; 0: none
  int64_t log_interval = 10;         ///< steps between terminal lines
  int64_t validation_interval = 0;   ///< steps; 0: only at the end
  int64_t validation_samples = 0;    ///< sequences of a validation during training; 0: all
  int64_t stop_after = 0;            ///< stop (with a checkpoint) after this step; 0: train.steps
  bool tensorboard = false;          ///< event files beside the run log
  std::string summary;               ///< file for a JSON summary of the session; empty: none
  double collective_timeout = 1800;  ///< seconds; 0: none
  bool check_collectives = false;    ///< compare every collective call over all ranks
  int64_t skip_limit = 10;           ///< skipped steps in a row that end the run

  CheckpointWriter writer() const;  ///< of checkpoint_writer

  LoopSchedule loops_of_steps() const { return {loop_schedule, model.loops, static_cast<uint64_t>(seed)}; }
  /// Operations of training per token, mean over the steps of the run, whose loop counts may differ. `complete` is
  /// `model` with its vocabulary known.
  FlopCount mean_training_flops(const ModelConfig& complete) const;
  /// Experts that a layout splits: 1 for a model without.
  int64_t layout_experts() const { return model.any_moe() ? model.moe.experts : 1; }

  void declare(Config& config);
  /// Checks what does not depend on the number of ranks or the data. Throws UsageError.
  void validate();

 private:
  void declare_conditions(Config& config) const;  ///< key_conditions.cpp
  void validate_schedule();
};

}  // namespace heddle
