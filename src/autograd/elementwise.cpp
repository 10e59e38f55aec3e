// Norms, activations and residual updates.
#include "autograd/operations.h"

namespace heddle {

Variable rmsnorm(Tape& tape, const Variable& x, const Variable& gain, float eps, Tensor* inverse_rms, int64_t width) {
  if (width == 0) width = x.value.shape().back();
  const int64_t n = x.value.count() / width;
  require(n * width == x.value.count() && (!gain.value.defined() || gain.value.count() == width),
          "rmsnorm: x {} in stretches of {} with gain {}", shape_text(x.value.shape()), width,
          shape_text(gain.value.shape()));
  const Tensor inverse = Tensor::empty({n}, Purpose::kActivations);
  const Variable y = tape.result(Tensor::empty_like(x.value, Purpose::kActivations), {&x, &gain});
  tape.kernels().rmsnorm_forward(n, width, eps, x.value.reals(), gain.value.f32(), y.value.reals(), inverse.f32());
  if (inverse_rms != nullptr) *inverse_rms = inverse;
  if (y.wants_gradient()) {
    tape.on_backward([&k = tape.kernels(), width, x, gain, inverse, y_slot = y.slot] {
      const Tensor dy = take_gradient(y_slot);
      if (!dy.defined()) return;
      const GradientOut dgain = float_gradient_out(gain.slot);
      const RealsGradient dx = gradient_out(x.slot);
      k.rmsnorm_backward(inverse.count(), width, x.value.reals(), gain.value.f32(), inverse.f32(), dy.reals(), dx,
                         dgain);
    });
  }
  return y;
}

Variable swiglu(Tape& tape, const Variable& gate, const Variable& up) {
  const Variable y = tape.result(Tensor::empty_like(up.value, Purpose::kActivations), {&gate, &up});
  tape.kernels().swiglu_forward(up.value.count(), gate.value.reals(), up.value.reals(), y.value.reals());
  if (y.wants_gradient()) {
    tape.on_backward([&k = tape.kernels(), gate, up, y_slot = y.slot] {
      Tensor dy = take_gradient(y_slot);
      if (!dy.defined()) return;
      Tensor dgate = Tensor::empty_like(dy, Purpose::kActivations);
      k.swiglu_backward(dy.count(), gate.value.reals(), up.value.reals(), dy.reals(), dgate.reals(), dy.reals());
      pass_gradient(k, gate.slot, std::move(dgate));
      pass_gradient(k, up.slot, std::move(dy));
    });
  }
  return y;
}

Variable activation(Tape& tape, Activation kind, const Variable& x) {
  const Variable y = tape.result(Tensor::empty_like(x.value, Purpose::kActivations), {&x});
  tape.kernels().activation_forward(kind, x.value.count(), x.value.reals(), y.value.reals());
  if (y.wants_gradient()) {
    tape.on_backward([&k = tape.kernels(), kind, x, y_slot = y.slot] {
      Tensor dy = take_gradient(y_slot);
      if (!dy.defined()) return;
      k.activation_backward(kind, dy.count(), x.value.reals(), dy.reals(), dy.reals());
      pass_gradient(k, x.slot, std::move(dy));
    });
  }
  return y;
}

Variable sigmoid(Tape& tape, const Variable& x) {
  const Variable y = tape.result(x.value, {&x});
  tape.kernels().sigmoid_forward(x.value.count(), x.value.f32(), y.value.f32());
  if (y.wants_gradient()) {
    tape.on_backward([&k = tape.kernels(), y = y.value, x_slot = x.slot, y_slot = y.slot] {
      const Tensor dy = take_gradient(y_slot);
      if (dy.defined()) k.sigmoid_backward(dy.count(), y.f32(), dy.f32(), float_gradient_out(x_slot));
    });
  }
  return y;
}

Variable softmax(Tape& tape, const Variable& x) {
  const Variable y = tape.result(x.value, {&x});
  tape.kernels().softmax_forward(x.value.dim(0), x.value.dim(1), x.value.f32(), y.value.f32());
  if (y.wants_gradient()) {
    tape.on_backward([&k = tape.kernels(), y = y.value, x_slot = x.slot, y_slot = y.slot] {
      const Tensor dy = take_gradient(y_slot);
      if (dy.defined()) k.softmax_backward(y.dim(0), y.dim(1), y.f32(), dy.f32(), float_gradient_out(x_slot));
    });
  }
  return y;
}

Variable scale(Tape& tape, float alpha, const Variable& x) {
  const Variable y = tape.result(x.value, {&x});
  tape.kernels().scale(x.value.count(), alpha, x.value.reals(), y.value.reals());
  if (y.wants_gradient()) {
    tape.on_backward([&k = tape.kernels(), alpha, x_slot = x.slot, y_slot = y.slot] {
      Tensor dy = take_gradient(y_slot);
      if (!dy.defined()) return;
      k.scale(dy.count(), alpha, dy.reals(), dy.reals());
      pass_gradient(k, x_slot, std::move(dy));
    });
  }
  return y;
}

namespace {
/// A copy of `gradient` times `factor`, for an input that is not the last to read it.
Tensor scaled(const Kernels& k, const Tensor& gradient, float factor) {
  Tensor copy = Tensor::empty_like(gradient, Purpose::kActivations);
  k.scale(gradient.count(), factor, gradient.reals(), copy.reals());
  return copy;
}
}  // namespace

Variable linear_combination(Tape& tape, float alpha, const Variable& x, float beta, const Variable& y) {
  const Variable out = tape.result(Tensor::empty_like(x.value, Purpose::kActivations), {&x, &y});
  tape.kernels().linear_combination(x.value.count(), alpha, x.value.reals(), beta, y.value.reals(), out.value.reals());
  if (out.wants_gradient()) {
    tape.on_backward([&k = tape.kernels(), alpha, beta, x_slot = x.slot, y_slot = y.slot, out_slot = out.slot] {
      Tensor dout = take_gradient(out_slot);
      if (!dout.defined()) return;
      if (y_slot != nullptr) pass_gradient(k, y_slot, scaled(k, dout, beta));
      if (x_slot == nullptr) return;
      k.scale(dout.count(), alpha, dout.reals(), dout.reals());
      pass_gradient(k, x_slot, std::move(dout));
    });
  }
  return out;
}

Variable residual_add(Tape& tape, const Variable& stream, float scale, const Variable& branch) {
  const Variable out = tape.result(branch.value, {&stream, &branch});
  tape.kernels().linear_combination(stream.value.count(), 1.0F, stream.value.reals(), scale, branch.value.reals(),
                                    out.value.reals());
  if (out.wants_gradient()) {
    tape.on_backward(
        [&k = tape.kernels(), scale, stream_slot = stream.slot, branch_slot = branch.slot, out_slot = out.slot] {
          Tensor dout = take_gradient(out_slot);
          if (!dout.defined()) return;
          if (branch_slot != nullptr) pass_gradient(k, branch_slot, scaled(k, dout, scale));
          pass_gradient(k, stream_slot, std::move(dout));
        });
  }
  return out;
}

Variable looping_residual(Tape& tape, const Variable& stream, const Variable& branch, float branch_scale,
                          double beta_local, double beta_global, LoopingAccumulators& a) {
  constexpr double kSmallestDenominator = 1e-6;
  const bool had_local = a.n_local.value.defined(), had_global = a.n_global.value.defined();
  a.d_local = had_local ? beta_local * a.d_local + 1 : 1;
  a.d_global = had_global ? beta_global * a.d_global + 1 : 1;
  const LoopingResidualCoefficients c{
      branch_scale, static_cast<float>(beta_local), static_cast<float>(1 / std::max(a.d_local, kSmallestDenominator)),
      static_cast<float>(beta_global), static_cast<float>(1 / std::max(a.d_global, kSmallestDenominator))};
  const Variable local_in = a.n_local, global_in = a.n_global;
  const Shape& shape = stream.value.shape();
  a.n_local = tape.result(Tensor::empty(shape, Purpose::kActivations), {&branch, &local_in});
  a.n_global = tape.result(Tensor::empty(shape, Purpose::kActivations), {&branch, &local_in, &global_in});
  const Variable out =
      tape.result(Tensor::empty_like(stream.value, Purpose::kActivations), {&stream, &branch, &local_in, &global_in});
  tape.kernels().looping_residual_forward(out.value.count(), c, stream.value.reals(), branch.value.reals(),
                                          local_in.value.f32(), global_in.value.f32(), a.n_local.value.f32(),
                                          a.n_global.value.f32(), out.value.reals());
  if (out.wants_gradient()) {
    tape.on_backward([&k = tape.kernels(), c, stream_slot = stream.slot, branch_slot = branch.slot,
                      local_in = local_in.slot, global_in = global_in.slot, local_out = a.n_local.slot,
                      global_out = a.n_global.slot, out_slot = out.slot] {
      Tensor dout = take_gradient(out_slot);
      Tensor dlocal = take_gradient(local_out), dglobal = take_gradient(global_out);
      if (!dout.defined()) return;
      Tensor dbranch = Tensor::empty_like(dout, Purpose::kActivations);
      Tensor dlocal_in, dglobal_in;
      if (local_in != nullptr)
        dlocal_in = dlocal.defined() ? dlocal : Tensor::empty(dout.shape(), Purpose::kActivations);
      if (global_in != nullptr)
        dglobal_in = dglobal.defined() ? dglobal : Tensor::empty(dout.shape(), Purpose::kActivations);
      k.looping_residual_backward(dout.count(), c, dout.reals(), dlocal.f32(), dglobal.f32(), dbranch.reals(),
                                  dlocal_in.f32(), dglobal_in.f32());
      pass_gradient(k, branch_slot, std::move(dbranch));
      if (local_in != nullptr) pass_gradient(k, local_in, std::move(dlocal_in));
      if (global_in != nullptr) pass_gradient(k, global_in, std::move(dglobal_in));
      pass_gradient(k, stream_slot, std::move(dout));
    });
  }
  return out;
}

}  // namespace heddle
