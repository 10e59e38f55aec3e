// Products with weights: dense, and grouped by expert.
#include "autograd/operations.h"

namespace heddle {

namespace {

/// Room for a result of `shape` that is stored as x is.
Tensor activations(Shape shape, const Tensor& x) {
  return Tensor::empty(std::move(shape), Purpose::kActivations, x.dtype(), x.row_capacity());
}

/// The copy of a weight that is stored as x is.
const Tensor& weight_for(const Tensor& x, const Variable& weight) {
  const Tensor& w = x.dtype() == weight.value.dtype() ? weight.value : weight.narrow;
  require(w.defined(), "a weight {} has no bfloat16 copy", shape_text(weight.value.shape()));
  return w;
}

/// x as float32, for a weight that exists in float32 only (routers).
Variable widen(Tape& tape, const Variable& x) {
  const Variable y = tape.result(Tensor::empty(x.value.shape(), Purpose::kActivations), {&x});
  tape.kernels().scale(x.value.count(), 1, x.value.reals(), y.value.reals());
  if (y.wants_gradient()) {
    tape.on_backward([&k = tape.kernels(), x_slot = x.slot, y_slot = y.slot] {
      const Tensor dy = take_gradient(y_slot);
      if (!dy.defined()) return;
      const RealsGradient dx = gradient_out(x_slot);
      if (dx.accumulate)
        k.linear_combination(dy.count(), 1, dx.data, 1, dy.reals(), dx.data);
      else
        k.scale(dy.count(), 1, dy.reals(), dx.data);
    });
  }
  return y;
}

/// Gradients of y = x W^T given dy [N,M].
void linear_backward(const Kernels& k, const Tensor& x, const Tensor& weight, const Tensor& dy,
                     const SlotPointer& x_slot, const SlotPointer& weight_slot) {
  const int64_t n = dy.dim(0), m = weight.dim(0), width = weight.dim(1);
  if (const RealsGradient dw = gradient_out(weight_slot))
    k.matmul(Transpose::kYes, Transpose::kNo, m, width, n, 1, dy.reals(), m, x.reals(), width,
             dw.accumulate ? 1.0F : 0.0F, dw.data, width);
  if (const RealsGradient dx = gradient_out(x_slot))
    k.matmul(Transpose::kNo, Transpose::kNo, n, width, m, 1, dy.reals(), m, weight.reals(), width,
             dx.accumulate ? 1.0F : 0.0F, dx.data, width);
}

}  // namespace

Variable embedding(Tape& tape, const Tensor& tokens, const Variable& table, float scale) {
  const int64_t n = tokens.count(), width = table.value.dim(1);
  const Variable y = tape.result(Tensor::empty({n, width}, Purpose::kActivations, tape.activations()), {&table});
  tape.kernels().embedding_forward(n, width, scale, tokens.i32(), table.value.f32(), y.value.reals());
  if (y.wants_gradient()) {
    tape.on_backward([&k = tape.kernels(), tokens, scale, vocabulary = table.value.dim(0), table_slot = table.slot,
                      y_slot = y.slot] {
      const Tensor dy = take_gradient(y_slot);
      if (!dy.defined()) return;
      k.embedding_backward(dy.dim(0), dy.dim(1), vocabulary, scale, tokens.i32(), dy.reals(),
                           float_gradient_out(table_slot));
    });
  }
  return y;
}

Variable linear(Tape& tape, const Variable& x, const Variable& weight) {
  const int64_t n = x.value.dim(0), m = weight.value.dim(0), width = weight.value.dim(1);
  require(x.value.dim(1) == width, "linear: x {} with weight {}", shape_text(x.value.shape()),
          shape_text(weight.value.shape()));
  if (x.value.dtype() != DType::kFloat32 && !weight.narrow.defined()) return linear(tape, widen(tape, x), weight);
  const Tensor& w = weight_for(x.value, weight);
  const Variable y = tape.result(activations({n, m}, x.value), {&x, &weight});
  tape.kernels().matmul(Transpose::kNo, Transpose::kYes, n, m, width, 1, x.value.reals(), width, w.reals(), width, 0,
                        y.value.reals(), m);
  if (y.wants_gradient()) {
    tape.on_backward(
        [&k = tape.kernels(), x = x.value, weight = w, x_slot = x.slot, weight_slot = weight.slot, y_slot = y.slot] {
          const Tensor dy = take_gradient(y_slot);
          if (dy.defined()) linear_backward(k, x, weight, dy, x_slot, weight_slot);
        });
  }
  return y;
}

Variable linear_pair(Tape& tape, const Variable& a, const Variable& b, const Variable& weight) {
  const int64_t n = a.value.dim(0), width = a.value.dim(1), m = weight.value.dim(0);
  require(a.value.shape() == b.value.shape() && weight.value.dim(1) == 2 * width, "linear_pair: {} and {} with {}",
          shape_text(a.value.shape()), shape_text(b.value.shape()), shape_text(weight.value.shape()));
  const Variable y = tape.result(activations({n, m}, a.value), {&a, &b, &weight});
  const Reals w = weight_for(a.value, weight).reals();
  tape.kernels().matmul(Transpose::kNo, Transpose::kYes, n, m, width, 1, a.value.reals(), width, w, 2 * width, 0,
                        y.value.reals(), m);
  tape.kernels().matmul(Transpose::kNo, Transpose::kYes, n, m, width, 1, b.value.reals(), width, w.at(width), 2 * width,
                        1, y.value.reals(), m);
  if (y.wants_gradient()) {
    tape.on_backward([&k = tape.kernels(), a, b, weight = w, weight_slot = weight.slot, y_slot = y.slot] {
      const Tensor dy = take_gradient(y_slot);
      if (!dy.defined()) return;
      const int64_t rows = dy.dim(0), outputs = dy.dim(1), columns = a.value.dim(1);
      const RealsGradient dw = gradient_out(weight_slot);
      int64_t first = 0;  // column of the weight
      for (const Variable* x : {&a, &b}) {
        if (dw)
          k.matmul(Transpose::kYes, Transpose::kNo, outputs, columns, rows, 1, dy.reals(), outputs, x->value.reals(),
                   columns, dw.accumulate ? 1.0F : 0.0F, dw.data.at(first), 2 * columns);
        if (const RealsGradient dx = gradient_out(x->slot))
          k.matmul(Transpose::kNo, Transpose::kNo, rows, columns, outputs, 1, dy.reals(), outputs, weight.at(first),
                   2 * columns, dx.accumulate ? 1.0F : 0.0F, dx.data, columns);
        first += columns;
      }
    });
  }
  return y;
}

Variable grouped_linear(Tape& tape, const Variable& x, const Variable& weight,
                        const std::shared_ptr<const std::vector<int64_t>>& offsets) {
  const int64_t groups = weight.value.dim(0), m = weight.value.dim(1), width = weight.value.dim(2);
  require(static_cast<int64_t>(offsets->size()) == groups + 1 && offsets->back() == x.value.dim(0),
          "grouped_linear: {} offsets for {} groups", offsets->size(), groups);
  const Tensor& w = weight_for(x.value, weight);
  const Variable y = tape.result(activations({x.value.dim(0), m}, x.value), {&x, &weight});
  tape.kernels().grouped_matmul_forward(groups, offsets->data(), m, width, x.value.reals(), w.reals(), y.value.reals());
  if (y.wants_gradient()) {
    tape.on_backward([&k = tape.kernels(), offsets, x = x.value, weight = w, x_slot = x.slot, weight_slot = weight.slot,
                      y_slot = y.slot] {
      const Tensor dy = take_gradient(y_slot);
      if (!dy.defined()) return;
      const int64_t g = weight.dim(0), rows = weight.dim(1), columns = weight.dim(2);
      if (const GradientOut dw = float_gradient_out(weight_slot))
        k.grouped_matmul_weight_gradient(g, offsets->data(), rows, columns, dy.reals(), x.reals(), dw.accumulate,
                                         dw.data);
      if (const RealsGradient dx = gradient_out(x_slot))
        k.grouped_matmul_input_gradient(g, offsets->data(), rows, columns, dy.reals(), weight.reals(), dx.accumulate,
                                        dx.data);
    });
  }
  return y;
}

}  // namespace heddle
