// All entries of the table one after the other, for what is done to each alike: an adapter around every operation.
#pragma once

#include "kernels/kernels.h"

namespace heddle {

template <auto kMember>
struct KernelEntry {
  static constexpr auto kPointer = kMember;  ///< to the member of Kernels
};

/// Calls visit(KernelEntry<&Kernels::x>()) for every operation x.
template <typename Visit>
void for_each_kernel(const Visit& visit) {
  visit(KernelEntry<&Kernels::matmul>());
  visit(KernelEntry<&Kernels::grouped_matmul_forward>());
  visit(KernelEntry<&Kernels::grouped_matmul_input_gradient>());
  visit(KernelEntry<&Kernels::grouped_matmul_weight_gradient>());
  visit(KernelEntry<&Kernels::embedding_forward>());
  visit(KernelEntry<&Kernels::embedding_backward>());
  visit(KernelEntry<&Kernels::rmsnorm_forward>());
  visit(KernelEntry<&Kernels::rmsnorm_backward>());
  visit(KernelEntry<&Kernels::rotary>());
  visit(KernelEntry<&Kernels::attention_workspace>());
  visit(KernelEntry<&Kernels::attention_forward>());
  visit(KernelEntry<&Kernels::attention_backward>());
  visit(KernelEntry<&Kernels::swiglu_forward>());
  visit(KernelEntry<&Kernels::swiglu_backward>());
  visit(KernelEntry<&Kernels::activation_forward>());
  visit(KernelEntry<&Kernels::activation_backward>());
  visit(KernelEntry<&Kernels::sigmoid_gate_forward>());
  visit(KernelEntry<&Kernels::sigmoid_gate_backward>());
  visit(KernelEntry<&Kernels::sigmoid_forward>());
  visit(KernelEntry<&Kernels::sigmoid_backward>());
  visit(KernelEntry<&Kernels::softmax_forward>());
  visit(KernelEntry<&Kernels::softmax_backward>());
  visit(KernelEntry<&Kernels::squared_log_sum_exp>());
  visit(KernelEntry<&Kernels::add_row>());
  visit(KernelEntry<&Kernels::sum_rows>());
  visit(KernelEntry<&Kernels::modulate_forward>());
  visit(KernelEntry<&Kernels::modulate_backward>());
  visit(KernelEntry<&Kernels::decay_injection_forward>());
  visit(KernelEntry<&Kernels::decay_injection_backward>());
  visit(KernelEntry<&Kernels::linear_combination>());
  visit(KernelEntry<&Kernels::scale>());
  visit(KernelEntry<&Kernels::fill_zero>());
  visit(KernelEntry<&Kernels::sum_of_squares>());
  visit(KernelEntry<&Kernels::sums_of_squares>());
  visit(KernelEntry<&Kernels::sum_doubles>());
  visit(KernelEntry<&Kernels::weighted_sum_forward>());
  visit(KernelEntry<&Kernels::weighted_term_backward>());
  visit(KernelEntry<&Kernels::looping_residual_forward>());
  visit(KernelEntry<&Kernels::looping_residual_backward>());
  visit(KernelEntry<&Kernels::top_k>());
  visit(KernelEntry<&Kernels::route_weights_forward>());
  visit(KernelEntry<&Kernels::route_weights_backward>());
  visit(KernelEntry<&Kernels::expert_share_forward>());
  visit(KernelEntry<&Kernels::expert_share_backward>());
  visit(KernelEntry<&Kernels::gather_rows>());
  visit(KernelEntry<&Kernels::sum_slots>());
  visit(KernelEntry<&Kernels::sum_slots_backward>());
  visit(KernelEntry<&Kernels::scatter>());
  visit(KernelEntry<&Kernels::route_count>());
  visit(KernelEntry<&Kernels::route_send>());
  visit(KernelEntry<&Kernels::route_receive>());
  visit(KernelEntry<&Kernels::count_choices>());
  visit(KernelEntry<&Kernels::keep_largest>());
  visit(KernelEntry<&Kernels::count_overlaps>());
  visit(KernelEntry<&Kernels::count_fresh>());
  visit(KernelEntry<&Kernels::add_entropy>());
  visit(KernelEntry<&Kernels::add_weight_overlap>());
  visit(KernelEntry<&Kernels::keep_maximum>());
  visit(KernelEntry<&Kernels::add_comparison>());
  visit(KernelEntry<&Kernels::add_unit_rows>());
  visit(KernelEntry<&Kernels::add_doubles>());
  visit(KernelEntry<&Kernels::add_squares>());
  visit(KernelEntry<&Kernels::add_mean_squares>());
  visit(KernelEntry<&Kernels::soft_cap>());
  visit(KernelEntry<&Kernels::cross_entropy>());
  visit(KernelEntry<&Kernels::adamw>());
  visit(KernelEntry<&Kernels::sgd>());
  visit(KernelEntry<&Kernels::copy_matrix>());
  visit(KernelEntry<&Kernels::normalise_rows>());
  visit(KernelEntry<&Kernels::reduce_variance>());
  visit(KernelEntry<&Kernels::muon_update>());
}

}  // namespace heddle
