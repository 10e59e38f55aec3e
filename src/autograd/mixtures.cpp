// Sums with learned weights, and learned vectors for all rows.
#include "autograd/operations.h"

namespace heddle {

namespace {

/// Destination of the gradient of elements [first, ...) of `slot`, always to be added to: on the first write everything
/// becomes zero, so that what lies around them has a gradient of exactly zero.
GradientOut gradient_part(const Kernels& k, const SlotPointer& slot, int64_t first) {
  const GradientOut whole = float_gradient_out(slot);
  if (!whole) return {};
  if (!whole.accumulate) k.fill_zero(element_count(slot->shape), whole.data);
  return {whole.data + first, true};
}

/// Gradients of weights[index] * x.
void weighted_term_backward(const Kernels& k, const Variable& weights, int64_t index, const Variable& x,
                            const Tensor& dout) {
  const RealsGradient dx = gradient_out(x.slot);
  k.weighted_term_backward(dout.count(), weights.value.f32() + index, x.value.reals(), dout.reals(), dx,
                           gradient_part(k, weights.slot, index));
}

}  // namespace

Variable add_row(Tape& tape, const Variable& x, const Variable& table, int64_t row) {
  const int64_t n = x.value.dim(0), width = x.value.dim(1);
  require(row >= 0 && (row + 1) * width <= table.value.count() && table.value.count() % width == 0,
          "add_row: row {} of {} to x {}", row, shape_text(table.value.shape()), shape_text(x.value.shape()));
  const Variable out = tape.result(Tensor::empty_like(x.value, Purpose::kActivations), {&x, &table});
  tape.kernels().add_row(n, width, x.value.reals(), table.value.f32() + row * width, out.value.reals());
  if (out.wants_gradient()) {
    tape.on_backward([&k = tape.kernels(), row, x_slot = x.slot, table_slot = table.slot, out_slot = out.slot] {
      Tensor dout = take_gradient(out_slot);
      if (!dout.defined()) return;
      const int64_t columns = dout.dim(1);
      if (table_slot != nullptr)
        k.sum_rows(dout.dim(0), columns, dout.reals(), gradient_part(k, table_slot, row * columns));
      pass_gradient(k, x_slot, std::move(dout));
    });
  }
  return out;
}

Variable modulate(Tape& tape, const Variable& x, const Variable& modulation) {
  const int64_t n = x.value.dim(0), width = x.value.dim(1);
  require(modulation.value.dim(0) == n && modulation.value.dim(1) == 2 * width, "modulate: x {} by {}",
          shape_text(x.value.shape()), shape_text(modulation.value.shape()));
  const Variable out = tape.result(Tensor::empty_like(x.value, Purpose::kActivations), {&x, &modulation});
  tape.kernels().modulate_forward(n, width, x.value.reals(), modulation.value.reals(), out.value.reals());
  if (out.wants_gradient()) {
    tape.on_backward([&k = tape.kernels(), x, modulation, out_slot = out.slot] {
      const Tensor dout = take_gradient(out_slot);
      if (!dout.defined()) return;
      const RealsGradient dx = gradient_out(x.slot);
      k.modulate_backward(dout.dim(0), dout.dim(1), x.value.reals(), modulation.value.reals(), dout.reals(), dx,
                          gradient_out(modulation.slot));
    });
  }
  return out;
}

Variable weighted_sum(Tape& tape, std::span<const Variable> xs, const Variable& weights, int64_t first) {
  const auto terms = static_cast<int64_t>(xs.size());
  require(terms > 0 && first >= 0 && first + terms <= weights.value.count(), "weighted_sum: weights {} + {} of {}",
          first, terms, shape_text(weights.value.shape()));
  const Shape& shape = xs[0].value.shape();
  std::vector<ConstReals> pointers;
  const Variable* wanting = &weights;  // one input that wants a gradient, if any does
  for (const Variable& x : xs) {
    require(x.value.shape() == shape, "weighted_sum: {} with {}", shape_text(x.value.shape()), shape_text(shape));
    pointers.emplace_back(x.value.reals());
    if (x.wants_gradient()) wanting = &x;
  }
  const Variable out = tape.result(Tensor::empty_like(xs[0].value, Purpose::kActivations), {wanting});
  tape.kernels().weighted_sum_forward(out.value.count(), terms, nullptr, weights.value.f32() + first, pointers.data(),
                                      out.value.reals());
  if (out.wants_gradient()) {
    std::vector<Variable> inputs(xs.begin(), xs.end());
    if (!weights.wants_gradient())  // then their values are not read
      for (Variable& x : inputs) x.value = {};
    tape.on_backward([&k = tape.kernels(), first, weights, inputs = std::move(inputs), out_slot = out.slot] {
      const Tensor dout = take_gradient(out_slot);
      if (!dout.defined()) return;
      int64_t index = first;
      for (const Variable& x : inputs) weighted_term_backward(k, weights, index++, x, dout);
    });
  }
  return out;
}

Variable add_weighted(Tape& tape, const Variable& base, const Variable& weights, int64_t index, const Variable& x) {
  require(base.value.shape() == x.value.shape() && index >= 0 && index < weights.value.count(),
          "add_weighted: base {}, x {}, weight {} of {}", shape_text(base.value.shape()), shape_text(x.value.shape()),
          index, shape_text(weights.value.shape()));
  const Variable out = tape.result(Tensor::empty_like(x.value, Purpose::kActivations), {&base, &weights, &x});
  const ConstReals pointer = x.value.reals();
  tape.kernels().weighted_sum_forward(out.value.count(), 1, base.value.reals(), weights.value.f32() + index, &pointer,
                                      out.value.reals());
  if (out.wants_gradient()) {
    tape.on_backward([&k = tape.kernels(), base_slot = base.slot, weights, index, out_slot = out.slot,
                      x = weights.wants_gradient() ? x : Variable{{}, x.slot, {}}] {
      Tensor dout = take_gradient(out_slot);
      if (!dout.defined()) return;
      weighted_term_backward(k, weights, index, x, dout);
      pass_gradient(k, base_slot, std::move(dout));
    });
  }
  return out;
}

Variable decay_injection(Tape& tape, const Variable& h, const Variable& injected, const Variable& dt_bias,
                         const Variable& a_log) {
  const int64_t n = h.value.dim(0), width = h.value.dim(1);
  require(injected.value.shape() == h.value.shape() && dt_bias.value.count() == width && a_log.value.count() == width,
          "decay_injection: h {}, injected {}, dt_bias {}, a_log {}", shape_text(h.value.shape()),
          shape_text(injected.value.shape()), shape_text(dt_bias.value.shape()), shape_text(a_log.value.shape()));
  const Variable out =
      tape.result(Tensor::empty_like(h.value, Purpose::kActivations), {&h, &injected, &dt_bias, &a_log});
  tape.kernels().decay_injection_forward(n, width, h.value.reals(), injected.value.reals(), dt_bias.value.f32(),
                                         a_log.value.f32(), out.value.reals());
  if (out.wants_gradient()) {
    tape.on_backward([&k = tape.kernels(), h, injected, dt_bias, a_log, out_slot = out.slot] {
      const Tensor dout = take_gradient(out_slot);
      if (!dout.defined()) return;
      const RealsGradient dh = gradient_out(h.slot), dinjected = gradient_out(injected.slot);
      const GradientOut ddt_bias = float_gradient_out(dt_bias.slot), da_log = float_gradient_out(a_log.slot);
      k.decay_injection_backward(dout.dim(0), dout.dim(1), h.value.reals(), injected.value.reals(), dt_bias.value.f32(),
                                 a_log.value.f32(), dout.reals(), dh, dinjected, ddt_bias, da_log);
    });
  }
  return out;
}

}  // namespace heddle
