// The table of the reference device.
#include "kernels/kernels.h"

#include "kernels/ref/operations.h"

namespace heddle::ref {

const Kernels& kernels() {
  static const Kernels table = [] {
    Kernels t{};
    t.name = "ref";
    t.logits_at_once = int64_t{1} << 20;
    enter<matmul>(t.matmul);
    enter<grouped_matmul_forward>(t.grouped_matmul_forward);
    enter<grouped_matmul_input_gradient>(t.grouped_matmul_input_gradient);
    enter<grouped_matmul_weight_gradient>(t.grouped_matmul_weight_gradient);
    enter<embedding_forward>(t.embedding_forward);
    enter<embedding_backward>(t.embedding_backward);
    enter<rmsnorm_forward>(t.rmsnorm_forward);
    enter<rmsnorm_backward>(t.rmsnorm_backward);
    enter<rotary>(t.rotary);
    enter<attention_workspace>(t.attention_workspace);
    enter<attention_forward>(t.attention_forward);
    enter<attention_backward>(t.attention_backward);
    enter<swiglu_forward>(t.swiglu_forward);
    enter<swiglu_backward>(t.swiglu_backward);
    enter<activation_forward>(t.activation_forward);
    enter<activation_backward>(t.activation_backward);
    enter<sigmoid_gate_forward>(t.sigmoid_gate_forward);
    enter<sigmoid_gate_backward>(t.sigmoid_gate_backward);
    enter<sigmoid_forward>(t.sigmoid_forward);
    enter<sigmoid_backward>(t.sigmoid_backward);
    enter<softmax_forward>(t.softmax_forward);
    enter<softmax_backward>(t.softmax_backward);
    enter<squared_log_sum_exp>(t.squared_log_sum_exp);
    enter<add_row>(t.add_row);
    enter<sum_rows>(t.sum_rows);
    enter<modulate_forward>(t.modulate_forward);
    enter<modulate_backward>(t.modulate_backward);
    enter<decay_injection_forward>(t.decay_injection_forward);
    enter<decay_injection_backward>(t.decay_injection_backward);
    enter<linear_combination>(t.linear_combination);
    enter<scale>(t.scale);
    enter<fill_zero>(t.fill_zero);
    enter<sum_of_squares>(t.sum_of_squares);
    enter<sums_of_squares>(t.sums_of_squares);
    enter<sum_doubles>(t.sum_doubles);
    enter<weighted_sum_forward>(t.weighted_sum_forward);
    enter<weighted_term_backward>(t.weighted_term_backward);
    enter<looping_residual_forward>(t.looping_residual_forward);
    enter<looping_residual_backward>(t.looping_residual_backward);
    enter<top_k>(t.top_k);
    enter<route_weights_forward>(t.route_weights_forward);
    enter<route_weights_backward>(t.route_weights_backward);
    enter<expert_share_forward>(t.expert_share_forward);
    enter<expert_share_backward>(t.expert_share_backward);
    enter<gather_rows>(t.gather_rows);
    enter<sum_slots>(t.sum_slots);
    enter<sum_slots_backward>(t.sum_slots_backward);
    enter<scatter>(t.scatter);
    enter<route_count>(t.route_count);
    enter<route_send>(t.route_send);
    enter<route_receive>(t.route_receive);
    enter<count_choices>(t.count_choices);
    enter<keep_largest>(t.keep_largest);
    enter<count_overlaps>(t.count_overlaps);
    enter<count_fresh>(t.count_fresh);
    enter<add_entropy>(t.add_entropy);
    enter<add_weight_overlap>(t.add_weight_overlap);
    enter<keep_maximum>(t.keep_maximum);
    enter<add_comparison>(t.add_comparison);
    enter<add_unit_rows>(t.add_unit_rows);
    enter<add_doubles>(t.add_doubles);
    enter<add_squares>(t.add_squares);
    enter<add_mean_squares>(t.add_mean_squares);
    enter<soft_cap>(t.soft_cap);
    enter<cross_entropy>(t.cross_entropy);
    enter<adamw>(t.adamw);
    enter<sgd>(t.sgd);
    enter<copy_matrix>(t.copy_matrix);
    enter<normalise_rows>(t.normalise_rows);
    enter<reduce_variance>(t.reduce_variance);
    enter<muon_update>(t.muon_update);
    return t;
  }();
  return table;
}

}  // namespace heddle::ref
