// What the router's logits and scores lead to: mixing weights, the experts' shares, and the z-loss.
#include "autograd/operations.h"

namespace heddle {

Variable route_weights(Tape& tape, const Variable& scores, const Tensor& index, const Tensor& keep, bool renormalise) {
  const int64_t n = index.dim(0), chosen = index.dim(1), experts = scores.value.dim(1);
  const Variable w = tape.result(Tensor::empty({n, chosen}, Purpose::kActivations), {&scores});
  tape.kernels().route_weights_forward(n, experts, chosen, renormalise, scores.value.f32(), index.i32(), keep.u8(),
                                       w.value.f32());
  if (w.wants_gradient()) {
    tape.on_backward([&k = tape.kernels(), renormalise, scores, index, keep, w_slot = w.slot] {
      const Tensor dw = take_gradient(w_slot);
      if (!dw.defined()) return;
      k.route_weights_backward(index.dim(0), scores.value.dim(1), index.dim(1), renormalise, scores.value.f32(),
                               index.i32(), keep.u8(), dw.f32(), float_gradient_out(scores.slot));
    });
  }
  return w;
}

Variable expert_share(Tape& tape, const Variable& scores) {
  const int64_t n = scores.value.dim(0), experts = scores.value.dim(1);
  const Variable share = tape.result(Tensor::empty({experts}, Purpose::kActivations), {&scores});
  tape.kernels().expert_share_forward(n, experts, scores.value.f32(), share.value.f32());
  if (share.wants_gradient()) {
    tape.on_backward([&k = tape.kernels(), scores, share_slot = share.slot] {
      const Tensor dshare = take_gradient(share_slot);
      if (!dshare.defined()) return;
      k.expert_share_backward(scores.value.dim(0), scores.value.dim(1), scores.value.f32(), dshare.f32(),
                              float_gradient_out(scores.slot));
    });
  }
  return share;
}

double router_z_loss(Tape& tape, const Variable& logits, float gradient_scale) {
  const int64_t n = logits.value.dim(0);
  const Tensor squares = Tensor::empty({n}, Purpose::kWorkspace, DType::kFloat64);
  const GradientOut dlogits = tape.recording() ? float_gradient_out(logits.slot) : GradientOut{};
  tape.kernels().squared_log_sum_exp(n, logits.value.dim(1), gradient_scale, logits.value.f32(), squares.f64(),
                                     dlogits);
  return tape.kernels().sum_doubles(n, squares.f64(), false);
}

}  // namespace heddle
