// The table that computes nothing: to run the shapes of a step without its numbers (train/memory_plan.h).
#include "kernels/kernels.h"

namespace heddle::dry {

namespace {

template <typename Function>
struct Nothing;
template <typename Result, typename... Arguments>
struct Nothing<Result(Arguments...)> {
  static Result call(Arguments...) { return Result(); }
};

/// A function of any kernel's type that does nothing and returns zero.
template <typename Function>
constexpr Function* kNothing = Nothing<Function>::call;

template <typename Function>
void clear(Function*& entry) {
  entry = kNothing<Function>;
}

}  // namespace

const Kernels& kernels() {
  static const Kernels table = [] {
    Kernels t{};
    t.name = "dry";
    clear(t.matmul);
    clear(t.grouped_matmul_forward);
    clear(t.grouped_matmul_input_gradient);
    clear(t.grouped_matmul_weight_gradient);
    clear(t.embedding_forward);
    clear(t.embedding_backward);
    clear(t.rmsnorm_forward);
    clear(t.rmsnorm_backward);
    clear(t.rotary);
    t.attention_workspace = cpu::kernels().attention_workspace;
    clear(t.attention_forward);
    clear(t.attention_backward);
    clear(t.swiglu_forward);
    clear(t.swiglu_backward);
    clear(t.activation_forward);
    clear(t.activation_backward);
    clear(t.sigmoid_gate_forward);
    clear(t.sigmoid_gate_backward);
    clear(t.sigmoid_forward);
    clear(t.sigmoid_backward);
    clear(t.softmax_forward);
    clear(t.softmax_backward);
    clear(t.squared_log_sum_exp);
    clear(t.add_row);
    clear(t.sum_rows);
    clear(t.modulate_forward);
    clear(t.modulate_backward);
    clear(t.decay_injection_forward);
    clear(t.decay_injection_backward);
    clear(t.linear_combination);
    clear(t.scale);
    clear(t.fill_zero);
    clear(t.sum_of_squares);
    clear(t.sums_of_squares);
    clear(t.sum_doubles);
    clear(t.weighted_sum_forward);
    clear(t.weighted_term_backward);
    clear(t.looping_residual_forward);
    clear(t.looping_residual_backward);
    clear(t.top_k);
    clear(t.route_weights_forward);
    clear(t.route_weights_backward);
    clear(t.expert_share_forward);
    clear(t.expert_share_backward);
    clear(t.gather_rows);
    clear(t.sum_slots);
    clear(t.sum_slots_backward);
    clear(t.scatter);
    t.route_count = cpu::kernels().route_count;
    t.route_send = cpu::kernels().route_send;
    t.route_receive = cpu::kernels().route_receive;
    clear(t.count_choices);
    clear(t.keep_largest);
    clear(t.soft_cap);
    clear(t.cross_entropy);
    clear(t.adamw);
    clear(t.sgd);
    clear(t.copy_matrix);
    clear(t.normalise_rows);
    clear(t.reduce_variance);
    clear(t.muon_update);
    return t;
  }();
  return table;
}

}  // namespace heddle::dry
