// AdamW, SGD, Muon and MuonH over a parameter set (docs/model_family.md sections 5 and 9). A tensor without gradient
// is left out altogether: no moment decay, no weight decay, its step count stays (docs/loom.md section 4.2).
#pragma once

#include <string>
#include <vector>

#include "optim/muon.h"
#include "optim/shards.h"

namespace heddle {

struct OptimizerConfig {
  std::string name = "adamw";   ///< adamw | sgd | muon | muonh; the last two step matrices, and AdamW the rest
  double learning_rate = 1e-3;  ///< peak, of AdamW or SGD
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double momentum = 0.9;      ///< sgd
  double weight_decay = 0.1;  ///< decoupled; of AdamW or SGD
  std::string decay = "all";  ///< all (the LOOM recipe) | matrices: not Role::kVector
  /// Factors of learning_rate for Role::kEmbedding, kHead and kVector.
  double embedding_rate = 1, head_rate = 1, gain_rate = 1;
  double tied_rate_power = 0;  ///< rates of tied cores are divided by loops^tied_rate_power
  int64_t loops = 1;           ///< R of the model, at its end
  MuonConfig muon = {};
  bool zero = false;  ///< ZeRO-1: state and updates split over the ranks that hold the same weights
  int64_t zero_block = Shards::kBlock;

  /// Muon or MuonH steps this parameter's matrices; else AdamW or SGD its elements.
  bool by_matrix(const Parameter& p) const;
};

class Optimizer {
 public:
  /// State of one parameter, in the order of the set, of what this rank owns; flat, zero at the start.
  struct State {
    ArenaRange owned;  ///< in the local part
    Tensor first;      ///< AdamW's mean; momentum of the others
    Tensor second;     ///< AdamW's mean square; Muon's S with muon.second_moment, [longer side] per matrix
    Tensor target;     ///< MuonH: norm that each matrix keeps, set at the parameter's first step
    int64_t steps = 0;
  };
  /// One of these as files name it: where its elements lie in a tensor over all ranks.
  struct StateTensor {
    const char* kind;  ///< "first", "second" or "target"
    Shape global_shape;
    int64_t first = 0;  ///< index of values[0] in the global tensor
    Tensor values;
  };

  Optimizer(const OptimizerConfig& config, ParameterSet& parameters, ProcessGroups& groups, const Kernels& kernels);

  /// One update of what this rank owns of every parameter that has a gradient; gradients are multiplied by
  /// gradient_scale first (clipping). Rates are the configuration's times schedule_factor; global_step, from 1, serves
  /// the warm-up of Muon's momentum. With shards the weights then travel to the ranks that do not own them. Collective.
  void step(double schedule_factor, int64_t global_step, double gradient_scale);

  /// Tells that p's weights were copied from elsewhere: MuonH keeps their norm from now on. With `forget` its moments
  /// and step count start at zero, too.
  void weights_replaced(const Parameter& p, bool forget);

  const Shards& shards() const { return shards_; }

  const OptimizerConfig& config() const { return config_; }
  std::vector<State>& states() { return states_; }
  /// The state tensors that p's rule has; they share memory with states().
  std::vector<StateTensor> state_tensors(const Parameter& p) const;

 private:
  void adamw_step(Parameter& p, State& state, double rate, double gradient_scale) const;
  void sgd_step(Parameter& p, State& state, double rate, double gradient_scale) const;
  void muon_step(Parameter& p, State& state, double rate, double momentum, double gradient_scale);
  /// x is the direction of one matrix, dense; value the matrix, where it lies.
  void muon_update(const Matrices& m, double rate, const float* x, float* value) const;
  void muonh_update(const Matrices& m, double rate, float target, float* x, float* value) const;
  void set_targets(const Parameter& p, State& state) const;  ///< to the present norms
  /// Peak rate of p: the configuration's, by role, over loops^tied_rate_power.
  double rate_of(const Parameter& p) const;
  double decay_of(const Parameter& p) const;  ///< of AdamW or SGD
  size_t index_of(const Parameter& p) const;

  OptimizerConfig config_;
  ParameterSet& parameters_;
  Shards shards_;
  const Kernels& kernels_;
  std::vector<State> states_;
  MuonWorkspace workspace_;
};

/// Factor that brings a gradient of the given norm to at most max_norm: min(1, max_norm / (norm + 1e-6)); 1 for
/// max_norm = 0 (off).
double clip_factor(double norm, double max_norm);

}  // namespace heddle
