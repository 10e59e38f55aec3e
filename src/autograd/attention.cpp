// Rotary positions, attention and its output gate.
#include "autograd/operations.h"

namespace heddle {

RotaryTable make_rotary_table(int64_t positions, int64_t head_dim, double theta) {
  const Shape shape = {positions, head_dim / 2};
  std::vector<float> cosine(static_cast<size_t>(element_count(shape))), sine(cosine.size());
  fill_rotary_table(positions, head_dim, theta, cosine.data(), sine.data());
  RotaryTable table{Tensor::empty(shape, Purpose::kWorkspace), Tensor::empty(shape, Purpose::kWorkspace)};
  table.cosine.set<float>(cosine);
  table.sine.set<float>(sine);
  return table;
}

Variable rotary(Tape& tape, const Variable& x, int64_t head_dim, const Tensor& position, const RotaryTable& table) {
  const int64_t n = x.value.dim(0), heads = x.value.dim(1) / head_dim;
  const Variable y = tape.result(x.value, {&x});
  tape.kernels().rotary(n, heads, head_dim, position.i32(), table.cosine.f32(), table.sine.f32(), false,
                        x.value.reals(), y.value.reals());
  if (y.wants_gradient()) {
    tape.on_backward([&k = tape.kernels(), heads, head_dim, position, table, x_slot = x.slot, y_slot = y.slot] {
      Tensor dy = take_gradient(y_slot);
      if (!dy.defined()) return;
      k.rotary(dy.dim(0), heads, head_dim, position.i32(), table.cosine.f32(), table.sine.f32(), true, dy.reals(),
               dy.reals());
      pass_gradient(k, x_slot, std::move(dy));
    });
  }
  return y;
}

Variable attention(Tape& tape, const AttentionShape& shape, const Variable& q, const Variable& k, const Variable& v,
                   const Tensor& document_start) {
  const Kernels& kernels = tape.kernels();
  const Tensor workspace = Tensor::empty({kernels.attention_workspace(shape)}, Purpose::kWorkspace);
  const Tensor lse = Tensor::empty({shape.batch, shape.query_heads, shape.sequence}, Purpose::kActivations);
  const Variable y = tape.result(Tensor::empty_like(q.value, Purpose::kActivations), {&q, &k, &v});
  kernels.attention_forward(shape, q.value.reals(), k.value.reals(), v.value.reals(), document_start.i32(),
                            y.value.reals(), lse.f32(), workspace.f32());
  if (y.wants_gradient()) {
    tape.on_backward([&kernels, shape, q, k, v, document_start, y = y.value, y_slot = y.slot, lse] {
      const Tensor dy = take_gradient(y_slot);
      if (!dy.defined()) return;
      const Tensor scratch = Tensor::empty({kernels.attention_workspace(shape)}, Purpose::kWorkspace);
      Tensor dq = Tensor::empty_like(q.value, Purpose::kActivations);
      Tensor dk = Tensor::empty_like(k.value, Purpose::kActivations);
      Tensor dv = Tensor::empty_like(v.value, Purpose::kActivations);
      kernels.attention_backward(shape, q.value.reals(), k.value.reals(), v.value.reals(), document_start.i32(),
                                 y.reals(), lse.f32(), dy.reals(), dq.reals(), dk.reals(), dv.reals(), scratch.f32());
      pass_gradient(kernels, q.slot, std::move(dq));
      pass_gradient(kernels, k.slot, std::move(dk));
      pass_gradient(kernels, v.slot, std::move(dv));
    });
  }
  return y;
}

Variable sigmoid_gate(Tape& tape, const Variable& gate, const Variable& x) {
  const Variable y = tape.result(Tensor::empty_like(x.value, Purpose::kActivations), {&gate, &x});
  tape.kernels().sigmoid_gate_forward(x.value.count(), gate.value.reals(), x.value.reals(), y.value.reals());
  if (y.wants_gradient()) {
    tape.on_backward([&k = tape.kernels(), gate, x, y_slot = y.slot] {
      Tensor dy = take_gradient(y_slot);
      if (!dy.defined()) return;
      Tensor dx = Tensor::empty_like(dy, Purpose::kActivations);
      k.sigmoid_gate_backward(dy.count(), gate.value.reals(), x.value.reals(), dy.reals(), dy.reals(), dx.reals());
      pass_gradient(k, x.slot, std::move(dx));
      pass_gradient(k, gate.slot, std::move(dy));
    });
  }
  return y;
}

}  // namespace heddle
