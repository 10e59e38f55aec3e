// Declarations of the CPU operations; their contracts stand with the types in src/kernels/*.h.
#pragma once

#include "kernels/kernels.h"
#include "kernels/on_floats.h"

namespace heddle::cpu {

OnFloats<Matmul> matmul;
OnFloats<GroupedMatmulForward> grouped_matmul_forward;
OnFloats<GroupedMatmulInputGradient> grouped_matmul_input_gradient;
OnFloats<GroupedMatmulWeightGradient> grouped_matmul_weight_gradient;
OnFloats<EmbeddingForward> embedding_forward;
OnFloats<EmbeddingBackward> embedding_backward;
OnFloats<RmsNormForward> rmsnorm_forward;
OnFloats<RmsNormBackward> rmsnorm_backward;
OnFloats<Rotary> rotary;
OnFloats<AttentionWorkspace> attention_workspace;
OnFloats<AttentionForward> attention_forward;
OnFloats<AttentionBackward> attention_backward;
OnFloats<SwigluForward> swiglu_forward;
OnFloats<SwigluBackward> swiglu_backward;
OnFloats<ActivationForward> activation_forward;
OnFloats<ActivationBackward> activation_backward;
OnFloats<SigmoidGateForward> sigmoid_gate_forward;
OnFloats<SigmoidGateBackward> sigmoid_gate_backward;
OnFloats<SigmoidForward> sigmoid_forward;
OnFloats<SigmoidBackward> sigmoid_backward;
OnFloats<SoftmaxForward> softmax_forward;
OnFloats<SoftmaxBackward> softmax_backward;
OnFloats<SquaredLogSumExp> squared_log_sum_exp;
OnFloats<AddRow> add_row;
OnFloats<SumRows> sum_rows;
OnFloats<ModulateForward> modulate_forward;
OnFloats<ModulateBackward> modulate_backward;
OnFloats<DecayInjectionForward> decay_injection_forward;
OnFloats<DecayInjectionBackward> decay_injection_backward;
OnFloats<LinearCombination> linear_combination;
OnFloats<Scale> scale;
OnFloats<FillZero> fill_zero;
OnFloats<SumOfSquares> sum_of_squares;
OnFloats<SumsOfSquares> sums_of_squares;
OnFloats<SumDoubles> sum_doubles;
OnFloats<WeightedSumForward> weighted_sum_forward;
OnFloats<WeightedTermBackward> weighted_term_backward;
OnFloats<LoopingResidualForward> looping_residual_forward;
OnFloats<LoopingResidualBackward> looping_residual_backward;
OnFloats<TopK> top_k;
OnFloats<RouteWeightsForward> route_weights_forward;
OnFloats<RouteWeightsBackward> route_weights_backward;
OnFloats<ExpertShareForward> expert_share_forward;
OnFloats<ExpertShareBackward> expert_share_backward;
OnFloats<GatherRows> gather_rows;
OnFloats<SumSlots> sum_slots;
OnFloats<SumSlotsBackward> sum_slots_backward;
OnFloats<Scatter> scatter;
OnFloats<RouteCount> route_count;
OnFloats<RouteSend> route_send;
OnFloats<RouteReceive> route_receive;
OnFloats<CountChoices> count_choices;
OnFloats<KeepLargest> keep_largest;
OnFloats<CountFresh> count_fresh;
OnFloats<AddEntropy> add_entropy;
OnFloats<KeepMaximum> keep_maximum;
OnFloats<AddComparison> add_comparison;
OnFloats<AddUnitRows> add_unit_rows;
OnFloats<AddSquares> add_squares;
OnFloats<SoftCap> soft_cap;
OnFloats<CrossEntropy> cross_entropy;
OnFloats<AdamW> adamw;
OnFloats<Sgd> sgd;
OnFloats<CopyMatrix> copy_matrix;
OnFloats<NormaliseRows> normalise_rows;
OnFloats<ReduceVariance> reduce_variance;
OnFloats<MuonUpdate> muon_update;

}  // namespace heddle::cpu
