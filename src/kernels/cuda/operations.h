// Declarations of the CUDA operations; their contracts stand with the types in src/kernels/*.h. All work is enqueued on
// the compute stream; what returns a value or writes to the host waits for it.
#pragma once

#include "kernels/kernels.h"

namespace heddle::cuda {

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
ActivationForward activation_forward;
ActivationBackward activation_backward;
SigmoidGateForward sigmoid_gate_forward;
SigmoidGateBackward sigmoid_gate_backward;
SigmoidForward sigmoid_forward;
SigmoidBackward sigmoid_backward;
SoftmaxForward softmax_forward;
SoftmaxBackward softmax_backward;
SquaredLogSumExp squared_log_sum_exp;
AddRow add_row;
SumRows sum_rows;
ModulateForward modulate_forward;
ModulateBackward modulate_backward;
DecayInjectionForward decay_injection_forward;
DecayInjectionBackward decay_injection_backward;
LinearCombination linear_combination;
Scale scale;
FillZero fill_zero;
SumOfSquares sum_of_squares;
SumsOfSquares sums_of_squares;
SumDoubles sum_doubles;
WeightedSumForward weighted_sum_forward;
WeightedTermBackward weighted_term_backward;
LoopingResidualForward looping_residual_forward;
LoopingResidualBackward looping_residual_backward;
TopK top_k;
RouteWeightsForward route_weights_forward;
RouteWeightsBackward route_weights_backward;
ExpertShareForward expert_share_forward;
ExpertShareBackward expert_share_backward;
GatherRows gather_rows;
SumSlots sum_slots;
SumSlotsBackward sum_slots_backward;
Scatter scatter;
RouteCount route_count;
RouteSend route_send;
RouteReceive route_receive;
CountChoices count_choices;
KeepLargest keep_largest;
CountOverlaps count_overlaps;
CountFresh count_fresh;
AddEntropy add_entropy;
AddWeightOverlap add_weight_overlap;
KeepMaximum keep_maximum;
AddComparison add_comparison;
AddUnitRows add_unit_rows;
AddDoubles add_doubles;
AddSquares add_squares;
AddMeanSquares add_mean_squares;
SoftCap soft_cap;
CrossEntropy cross_entropy;
AdamW adamw;
Sgd sgd;
CopyMatrix copy_matrix;
NormaliseRows normalise_rows;
ReduceVariance reduce_variance;
MuonUpdate muon_update;

}  // namespace heddle::cuda
