// Declarations of the reference operations; their contracts stand with the types in src/kernels/*.h.
#pragma once

#include "kernels/kernels.h"

namespace heddle::ref {

Matmul matmul;
GroupedMatmulForward grouped_matmul_forward;
GroupedMatmulInputGradient grouped_matmul_input_gradient;
GroupedMatmulWeightGradient grouped_matmul_weight_gradient;
EmbeddingForward embedding_forward;
EmbeddingBackward embedding_backward;
RmsNormForward rmsnorm_forward;
RmsNormBackward rmsnorm_backward;
Rotary rotary;
AttentionWorkspace attention_workspace;
AttentionForward attention_forward;
AttentionBackward attention_backward;
SwigluForward swiglu_forward;
SwigluBackward swiglu_backward;
SigmoidGateForward sigmoid_gate_forward;
SigmoidGateBackward sigmoid_gate_backward;
SigmoidForward sigmoid_forward;
SigmoidBackward sigmoid_backward;
LinearCombination linear_combination;
Scale scale;
SumOfSquares sum_of_squares;
LoopingResidualForward looping_residual_forward;
LoopingResidualBackward looping_residual_backward;
TopK top_k;
RouteWeightsForward route_weights_forward;
RouteWeightsBackward route_weights_backward;
GatherRows gather_rows;
SumSlots sum_slots;
SumSlotsBackward sum_slots_backward;
CrossEntropy cross_entropy;
AdamW adamw;
Sgd sgd;
CopyMatrix copy_matrix;
NormaliseRows normalise_rows;
ReduceVariance reduce_variance;
MuonUpdate muon_update;

/// Writes one gradient element through a GradientOut.
inline void put(const GradientOut& out, int64_t i, double value) {
  if (!out) return;
  out.data[i] = static_cast<float>(out.accumulate ? static_cast<double>(out.data[i]) + value : value);
}

}  // namespace heddle::ref
