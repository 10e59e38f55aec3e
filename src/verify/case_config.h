// config.json of a reference case, format version 1 (docs/reference_cases.md) or 2 (docs/model_family.md): what the
// case is, and a refusal of what this build does not compute.
#pragma once

#include <string>

#include "model/model_config.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "train/loop_schedule.h"
#include "train/step.h"

namespace heddle {

struct CaseConfig {
  std::string name;
  int64_t version = 1;
  ModelConfig model;
  OptimizerConfig optimizer;
  Schedule schedule;
  StepConfig step;
  LoopScheduleConfig loops;  ///< growth
  double capacity_factor = 0;
  bool capacity_in_training = false;
  bool random_loops = false;  ///< the loops of every step are in the case
  bool ignored = false, documents = false;
  int64_t batch = 0, sequence = 0, steps = 0;
  int64_t micro_batches = 1;
  int64_t ranks = 1;           ///< processes whose micro-batches make the micro-steps
  bool only_at_ranks = false;  ///< a rule counts by process: it holds for exactly so many
};

/// Throws Error naming file, section and key for what is missing, unknown, of the wrong kind or out of its limits.
CaseConfig read_case_config(const std::string& path);

}  // namespace heddle
