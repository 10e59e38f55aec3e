// config.json of a reference case: what the case is, and a refusal of what this build does not compute.
#pragma once

#include <string>

#include "model/model_config.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "train/step.h"

namespace heddle {

struct CaseConfig {
  std::string name;
  ModelConfig model;
  OptimizerConfig optimizer;
  Schedule schedule;
  StepConfig step;
  double capacity_factor = 0;
  bool capacity_in_training = false;
  int64_t batch = 0, sequence = 0, steps = 0;
};

CaseConfig read_case_config(const std::string& path);

}  // namespace heddle
