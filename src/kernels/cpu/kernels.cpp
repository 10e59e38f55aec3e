// The table of the CPU.
#include "kernels/kernels.h"

#include "kernels/cpu/operations.h"

namespace heddle::cpu {

const Kernels& kernels() {
  static const Kernels table = {
      .name = "cpu",
      .matmul = matmul,
      .grouped_matmul_forward = grouped_matmul_forward,
      .grouped_matmul_input_gradient = grouped_matmul_input_gradient,
      .grouped_matmul_weight_gradient = grouped_matmul_weight_gradient,
      .embedding_forward = embedding_forward,
      .embedding_backward = embedding_backward,
      .rmsnorm_forward = rmsnorm_forward,
      .rmsnorm_backward = rmsnorm_backward,
      .rotary = rotary,
      .attention_workspace = attention_workspace,
      .attention_forward = attention_forward,
      .attention_backward = attention_backward,
      .swiglu_forward = swiglu_forward,
      .swiglu_backward = swiglu_backward,
      .sigmoid_gate_forward = sigmoid_gate_forward,
      .sigmoid_gate_backward = sigmoid_gate_backward,
      .sigmoid_forward = sigmoid_forward,
      .sigmoid_backward = sigmoid_backward,
      .linear_combination = linear_combination,
      .scale = scale,
      .sum_of_squares = sum_of_squares,
      .looping_residual_forward = looping_residual_forward,
      .looping_residual_backward = looping_residual_backward,
      .top_k = top_k,
      .route_weights_forward = route_weights_forward,
      .route_weights_backward = route_weights_backward,
      .gather_rows = gather_rows,
      .sum_slots = sum_slots,
      .sum_slots_backward = sum_slots_backward,
      .cross_entropy = cross_entropy,
      .adamw = adamw,
      .sgd = sgd,
      .copy_matrix = copy_matrix,
      .normalise_rows = normalise_rows,
      .reduce_variance = reduce_variance,
      .muon_update = muon_update,
  };
  return table;
}

}  // namespace heddle::cpu
