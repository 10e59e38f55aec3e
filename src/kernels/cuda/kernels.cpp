// The tables of the GPU.
#include "cuda/context.h"
#include "kernels/cuda/operations.h"
#include "kernels/entries.h"

namespace heddle::cuda {

namespace {

template <auto kMember, typename Function>
struct Waiting;
template <auto kMember, typename Result, typename... Arguments>
struct Waiting<kMember, Result(Arguments...)> {
  static Result call(Arguments... arguments) {
    struct Wait {
      ~Wait() noexcept(false) { context().synchronize_compute(); }
    };
    const Wait wait;
    return (kernels().*kMember)(arguments...);
  }
};

template <auto kMember, typename Function>
void set_waiting(Function*& entry) {
  entry = Waiting<kMember, Function>::call;
}

}  // namespace

const Kernels& kernels() {
  static const Kernels table = [] {
    Kernels t{};
    t.name = "cuda";
    t.logits_at_once = int64_t{1} << 26;
    t.matmul = matmul;
    t.grouped_matmul_forward = grouped_matmul_forward;
    t.grouped_matmul_input_gradient = grouped_matmul_input_gradient;
    t.grouped_matmul_weight_gradient = grouped_matmul_weight_gradient;
    t.embedding_forward = embedding_forward;
    t.embedding_backward = embedding_backward;
    t.rmsnorm_forward = rmsnorm_forward;
    t.rmsnorm_backward = rmsnorm_backward;
    t.rotary = rotary;
    t.attention_workspace = attention_workspace;
    t.attention_forward = attention_forward;
    t.attention_backward = attention_backward;
    t.swiglu_forward = swiglu_forward;
    t.swiglu_backward = swiglu_backward;
    t.activation_forward = activation_forward;
    t.activation_backward = activation_backward;
    t.sigmoid_gate_forward = sigmoid_gate_forward;
    t.sigmoid_gate_backward = sigmoid_gate_backward;
    t.sigmoid_forward = sigmoid_forward;
    t.sigmoid_backward = sigmoid_backward;
    t.softmax_forward = softmax_forward;
    t.softmax_backward = softmax_backward;
    t.squared_log_sum_exp = squared_log_sum_exp;
    t.add_row = add_row;
    t.sum_rows = sum_rows;
    t.modulate_forward = modulate_forward;
    t.modulate_backward = modulate_backward;
    t.decay_injection_forward = decay_injection_forward;
    t.decay_injection_backward = decay_injection_backward;
    t.linear_combination = linear_combination;
    t.scale = scale;
    t.fill_zero = fill_zero;
    t.sum_of_squares = sum_of_squares;
    t.sums_of_squares = sums_of_squares;
    t.sum_doubles = sum_doubles;
    t.weighted_sum_forward = weighted_sum_forward;
    t.weighted_term_backward = weighted_term_backward;
    t.looping_residual_forward = looping_residual_forward;
    t.looping_residual_backward = looping_residual_backward;
    t.top_k = top_k;
    t.route_weights_forward = route_weights_forward;
    t.route_weights_backward = route_weights_backward;
    t.expert_share_forward = expert_share_forward;
    t.expert_share_backward = expert_share_backward;
    t.gather_rows = gather_rows;
    t.sum_slots = sum_slots;
    t.sum_slots_backward = sum_slots_backward;
    t.scatter = scatter;
    t.route_count = route_count;
    t.route_send = route_send;
    t.route_receive = route_receive;
    t.count_choices = count_choices;
    t.keep_largest = keep_largest;
    t.count_overlaps = count_overlaps;
    t.count_fresh = count_fresh;
    t.add_entropy = add_entropy;
    t.add_weight_overlap = add_weight_overlap;
    t.keep_maximum = keep_maximum;
    t.add_comparison = add_comparison;
    t.add_unit_rows = add_unit_rows;
    t.add_doubles = add_doubles;
    t.add_squares = add_squares;
    t.add_mean_squares = add_mean_squares;
    t.soft_cap = soft_cap;
    t.cross_entropy = cross_entropy;
    t.adamw = adamw;
    t.sgd = sgd;
    t.copy_matrix = copy_matrix;
    t.normalise_rows = normalise_rows;
    t.reduce_variance = reduce_variance;
    t.muon_update = muon_update;
    return t;
  }();
  return table;
}

const Kernels& waiting_kernels() {
  static const Kernels table = [] {
    Kernels t{};
    t.name = "cuda_waiting";
    t.logits_at_once = kernels().logits_at_once;
    for_each_kernel([&](auto entry) { set_waiting<decltype(entry)::kPointer>(t.*entry.kPointer); });
    // A question about sizes, without work on the device.
    t.attention_workspace = attention_workspace;
    return t;
  }();
  return table;
}

}  // namespace heddle::cuda
