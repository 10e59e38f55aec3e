// AdamW and SGD over a parameter set. A tensor without gradient is left out altogether: no moment decay, no weight
// decay, its step count stays (docs/loom.md section 4.2).
#pragma once

#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "optim/shards.h"

namespace heddle {

struct OptimizerConfig {
  std::string name = "adamw";  ///< adamw | sgd
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double momentum = 0.9;      ///< sgd
  double weight_decay = 0.1;  ///< decoupled, on every tensor (the LOOM recipe)
  bool zero = false;          ///< ZeRO-1: state and updates split over the ranks that hold the same weights
  int64_t zero_block = Shards::kBlock;
};

class Optimizer {
 public:
  /// State of one parameter, in the order of the set: first (AdamW's mean, SGD's momentum) and second moment (AdamW
  /// only, else undefined) of the elements that this rank owns, flat, zero at the start; and the number of steps taken.
  struct State {
    ArenaRange owned;  ///< in the local part
    Tensor first, second;
    int64_t steps = 0;
  };

  Optimizer(const OptimizerConfig& config, ParameterSet& parameters, ProcessGroups& groups, const Kernels& kernels);

  /// One update of the owned elements of every parameter that has a gradient; gradients are multiplied by
  /// gradient_scale first (clipping). With shards the weights then travel to the ranks that do not own them.
  /// Collective.
  void step(double learning_rate, double gradient_scale);

  const Shards& shards() const { return shards_; }

  const OptimizerConfig& config() const { return config_; }
  std::vector<State>& states() { return states_; }

 private:
  OptimizerConfig config_;
  ParameterSet& parameters_;
  Shards shards_;
  const Kernels& kernels_;
  std::vector<State> states_;
};

/// Factor that brings a gradient of the given norm to at most max_norm: min(1, max_norm / (norm + 1e-6)); 1 for
/// max_norm = 0 (off).
double clip_factor(double norm, double max_norm);

}  // namespace heddle
