// The table of every operation. A device is one such table; autograd asks for the table of its tensors' device.
//   ref  simple loops, never tuned: what the others are tested against
//   cpu  oneDNN products, vectorised loops, OpenMP over rows; same bits for the same input at one thread count
//   cuda kernels and cuBLAS on a GPU, in stream order (docs/cuda_kernels.md); same bits for the same input
// Pointers are to memory of the device. Empty inputs (zero rows) are allowed everywhere.
#pragma once

#include "kernels/activations.h"
#include "kernels/attention.h"
#include "kernels/broadcast.h"
#include "kernels/cross_entropy.h"
#include "kernels/decay_injection.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/looping_residual.h"
#include "kernels/matmul.h"
#include "kernels/muon.h"
#include "kernels/optimizer.h"
#include "kernels/rmsnorm.h"
#include "kernels/rotary.h"
#include "kernels/route_plan.h"
#include "kernels/routing.h"
#include "kernels/rows.h"
#include "kernels/softmax.h"
#include "kernels/statistics.h"

namespace heddle {

struct Kernels {
  const char* name;
  /// Head logits that are computed together (autograd/cross_entropy.cpp): few enough to stay in a processor's cache,
  /// and enough to fill a GPU.
  int64_t logits_at_once;
  Matmul* matmul;
  GroupedMatmulForward* grouped_matmul_forward;
  GroupedMatmulInputGradient* grouped_matmul_input_gradient;
  GroupedMatmulWeightGradient* grouped_matmul_weight_gradient;
  EmbeddingForward* embedding_forward;
  EmbeddingBackward* embedding_backward;
  RmsNormForward* rmsnorm_forward;
  RmsNormBackward* rmsnorm_backward;
  Rotary* rotary;
  AttentionWorkspace* attention_workspace;
  AttentionForward* attention_forward;
  AttentionBackward* attention_backward;
  SwigluForward* swiglu_forward;
  SwigluBackward* swiglu_backward;
  ActivationForward* activation_forward;
  ActivationBackward* activation_backward;
  SigmoidGateForward* sigmoid_gate_forward;
  SigmoidGateBackward* sigmoid_gate_backward;
  SigmoidForward* sigmoid_forward;
  SigmoidBackward* sigmoid_backward;
  SoftmaxForward* softmax_forward;
  SoftmaxBackward* softmax_backward;
  SquaredLogSumExp* squared_log_sum_exp;
  AddRow* add_row;
  SumRows* sum_rows;
  ModulateForward* modulate_forward;
  ModulateBackward* modulate_backward;
  DecayInjectionForward* decay_injection_forward;
  DecayInjectionBackward* decay_injection_backward;
  LinearCombination* linear_combination;
  Scale* scale;
  FillZero* fill_zero;
  SumOfSquares* sum_of_squares;
  SumsOfSquares* sums_of_squares;
  SumDoubles* sum_doubles;
  WeightedSumForward* weighted_sum_forward;
  WeightedTermBackward* weighted_term_backward;
  LoopingResidualForward* looping_residual_forward;
  LoopingResidualBackward* looping_residual_backward;
  TopK* top_k;
  RouteWeightsForward* route_weights_forward;
  RouteWeightsBackward* route_weights_backward;
  ExpertShareForward* expert_share_forward;
  ExpertShareBackward* expert_share_backward;
  GatherRows* gather_rows;
  SumSlots* sum_slots;
  SumSlotsBackward* sum_slots_backward;
  Scatter* scatter;
  RouteCount* route_count;
  RouteSend* route_send;
  RouteReceive* route_receive;
  CountChoices* count_choices;
  KeepLargest* keep_largest;
  CountOverlaps* count_overlaps;
  CountFresh* count_fresh;
  AddEntropy* add_entropy;
  AddWeightOverlap* add_weight_overlap;
  KeepMaximum* keep_maximum;
  AddComparison* add_comparison;
  AddUnitRows* add_unit_rows;
  AddDoubles* add_doubles;
  AddSquares* add_squares;
  AddMeanSquares* add_mean_squares;
  SoftCap* soft_cap;
  CrossEntropy* cross_entropy;
  AdamW* adamw;
  Sgd* sgd;
  CopyMatrix* copy_matrix;
  NormaliseRows* normalise_rows;
  ReduceVariance* reduce_variance;
  MuonUpdate* muon_update;
};

namespace ref {
const Kernels& kernels();
}
namespace cpu {
const Kernels& kernels();
}
namespace cuda {
/// Where the program was built with CUDA, and the process has a context (cuda/context.h).
const Kernels& kernels();
/// The same operations, each of which waits for its own end: errors show where they happen.
const Kernels& waiting_kernels();
}  // namespace cuda
namespace dry {
/// Computes nothing; memory is asked for as with the given table.
Kernels kernels(const Kernels& of);
}  // namespace dry

}  // namespace heddle
