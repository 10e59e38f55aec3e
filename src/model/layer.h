// One stored layer of the family and its visit: attention, then a dense feed-forward or a mixture of experts, joined to
// the stream by the residual scheme (docs/model_family.md section 2, "Residual schemes" to "MoE").
#pragma once

#include "comm/process_groups.h"
#include "model/interventions.h"
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
  Tensor noise;           ///< float [N,D], initial state "noise"; undefined otherwise
};

/// A norm and its gain (null: none).
struct Norm {
  NormKind kind = NormKind::kOff;
  Parameter* gain = nullptr;
  /// x itself where off.
  Variable operator()(Tape& tape, const Variable& x, float eps, Tensor* inverse_rms = nullptr, int64_t width = 0) const;
};

/// Weights of one stored layer; null: the layer has none.
struct Layer {
  Norm attention_norm, feed_forward_norm, attention_post_norm, feed_forward_post_norm, block_norm;
  Norm query_norm, key_norm, moe_out_norm;
  Parameter *g_proj = nullptr, *q_proj = nullptr, *k_proj = nullptr, *v_proj = nullptr, *o_proj = nullptr;
  Parameter *gate_proj = nullptr, *up_proj = nullptr, *down_proj = nullptr;  ///< dense
  MoeParameters moe;
  int64_t stored_moe = -1;  ///< number among the stored mixture-of-experts layers; -1: dense
};

/// What a visit needs besides the layer and the stream.
struct LayerVisit {
  VisitPlace place;
  int64_t row = 0;              ///< of routers and balance biases
  int64_t depth = 1;            ///< of the visit in the unrolled stack, from 1 (layer-norm scaling)
  int64_t constants_loops = 1;  ///< R in the constants
  bool use_capacity = true;
  LoopingAccumulators* accumulators = nullptr;  ///< core with looping residual
  const Variable* modulation = nullptr;         ///< [N,2D] of the loop, or null
  RouterLosses* losses = nullptr;
  RowMarks* marks = nullptr;
  ForwardObserver* observer = nullptr;
  const Interventions* interventions = nullptr;
};

class LayerFunction {
 public:
  LayerFunction(const ModelConfig& config, ProcessGroups& groups) : config_(config), groups_(groups) {}
  /// x [N,D] -> [N,D]. Collective where the layer has experts.
  Variable visit(Tape& tape, const TokenBatch& batch, const Layer& layer, const LayerVisit& visit, const Variable& x);

 private:
  float eps() const { return static_cast<float>(config_.norm_eps); }
  Variable branch_input(Tape& tape, const Norm& norm, const LayerVisit& visit, const Variable& x) const;
  Variable attention_branch(Tape& tape, const TokenBatch& batch, const Layer& layer, const Variable& input);
  Variable dense_branch(Tape& tape, const Layer& layer, const Variable& input) const;
  Variable join(Tape& tape, const LayerVisit& visit, const Norm& post, const Variable& x, const Variable& branch) const;
  double branch_scale(int64_t constants_loops) const;
  const RotaryTable& rotary_table(int64_t positions);

  const ModelConfig& config_;
  ProcessGroups& groups_;
  RotaryTable rotary_;
  int64_t rotary_positions_ = 0;
};

}  // namespace heddle
