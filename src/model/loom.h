// LOOM: a core of L layers visited R times (docs/loom.md section 3).
//   x = sqrt(D) embed(tokens); z = x
//   loop t: z <- (1 - g_t) z + g_t x (t >= 2); local accumulators empty; L blocks; z <- rms(z)
//   block:  o = gamma attn(rms(z)); z <- z + r_global + r_local; z <- z + gamma rms_w(moe_t(rms(z))); z <- rms(z)
//   loss:   cross-entropy of lm_head z
// The model is a set of parameters and functions over a tape; which loops get gradient, and when weights move, is the
// business of the trainer.
#pragma once

#include <vector>

#include "comm/process_groups.h"
#include "model/model_config.h"
#include "model/observer.h"

namespace heddle {

/// The rows of one micro-batch on this rank: int32 tensors [rows * sequence]. rows may be 0.
struct TokenBatch {
  int64_t rows = 0, sequence = 0;
  Tensor tokens;
  Tensor targets;         ///< kIgnoredTarget where the position does not count
  Tensor position;        ///< position in the document, for rotary angles
  Tensor document_start;  ///< first position the token may attend to, or undefined: start of the row
};

/// What enters a loop: the state and the accumulators of the looping residual.
struct LoopState {
  Variable state;  ///< [N,D]
  LoopingAccumulators accumulators;
};

/// A LoopState without its graph: what crosses a segment end.
struct LoopCarry {
  Tensor state;
  Tensor n_global;
  double d_global = 0;
};

class Loom {
 public:
  /// Makes all parameters (not initialised). Experts are those of this rank. Collective where groups are.
  Loom(const ModelConfig& config, ProcessGroups& groups, const Kernels& kernels);

  const ModelConfig& config() const { return config_; }
  const Kernels& kernels() const { return kernels_; }
  ProcessGroups& groups() { return groups_; }
  ParameterSet& parameters() { return parameters_; }
  const Tensor& balance_bias(int64_t layer) const { return layers_.at(static_cast<size_t>(layer)).moe.balance_bias; }
  const std::vector<RowMarks>& row_marks() const { return row_marks_; }  ///< [loops, layers], of training forwards
  static std::string balance_bias_name(int64_t layer);

  /// The release's start values (docs/loom.md section 2), each element a function of (seed, name, global index).
  void initialise(uint64_t seed);

  struct Options {
    int64_t constants_loops = 0;  ///< R in gamma; 0: the configured count
    bool use_capacity = true;
    ForwardObserver* observer = nullptr;
  };

  Variable embed(Tape& tape, const TokenBatch& batch, const Options& options);
  static LoopState start(const Variable& embedding) { return {embedding, {}}; }
  static LoopState resume(const LoopCarry& carry);
  static LoopCarry detach(const LoopState& state);

  /// Loops first .. last - 1 (from 0). Beyond the last router, the last one serves.
  void run_loops(Tape& tape, const TokenBatch& batch, const Variable& embedding, int64_t first, int64_t last,
                 const Options& options, LoopState& state);

  /// Sum of the cross-entropies of this rank's counted targets; seeds gradients of gradient_scale * sum.
  double loss_sum(Tape& tape, const Variable& state, const TokenBatch& batch, double gradient_scale);
  Tensor logits(const Tensor& state);  ///< [N,V]

 private:
  struct Layer {
    Parameter *g_proj, *q_proj, *k_proj, *v_proj, *o_proj, *out_norm;
    MoeParameters moe;
  };
  Variable attention_branch(Tape& tape, const Layer& layer, const TokenBatch& batch, const Variable& z);
  const RotaryTable& rotary_table(int64_t positions);

  ModelConfig config_;
  ProcessGroups& groups_;
  const Kernels& kernels_;
  ParameterSet parameters_;
  Parameter *embedding_ = nullptr, *head_ = nullptr;
  std::vector<Layer> layers_;
  std::vector<RowMarks> row_marks_;  ///< [loops, layers], of training forwards
  RotaryTable rotary_;
  int64_t rotary_positions_ = 0;
};

}  // namespace heddle
