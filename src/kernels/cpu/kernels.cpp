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
      .activation_forward = activation_forward,
      .activation_backward = activation_backward,
      .sigmoid_gate_forward = sigmoid_gate_forward,
      .sigmoid_gate_backward = sigmoid_gate_backward,
      .sigmoid_forward = sigmoid_forward,
      .sigmoid_backward = sigmoid_backward,
      .softmax_forward = softmax_forward,
      .softmax_backward = softmax_backward,
      .squared_log_sum_exp = squared_log_sum_exp,
      .add_row = add_row,
      .sum_rows = sum_rows,
      .modulate_forward = modulate_forward,
      .modulate_backward = modulate_backward,
      .decay_injection_forward = decay_injection_forward,
      .decay_injection_backward = decay_injection_backward,
      .linear_combination = linear_combination,
      .scale = scale,
      .fill_zero = fill_zero,
      .sum_of_squares = sum_of_squares,
      .weighted_sum_forward = weighted_sum_forward,
      .weighted_term_backward = weighted_term_backward,
      .looping_residual_forward = looping_residual_forward,
      .looping_residual_backward = looping_residual_backward,
      .top_k = top_k,
      .route_weights_forward = route_weights_forward,
      .route_weights_backward = route_weights_backward,
      .expert_share_forward = expert_share_forward,
      .expert_share_backward = expert_share_backward,
      .gather_rows = gather_rows,
      .sum_slots = sum_slots,
      .sum_slots_backward = sum_slots_backward,
      .soft_cap = soft_cap,
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
