// Stretches of rows as values of their own.
#include <algorithm>
#include <numeric>

#include "autograd/operations.h"

namespace heddle {

std::vector<Variable> split_rows(Tape& tape, const Variable& x, const std::vector<int64_t>& counts) {
  require(std::accumulate(counts.begin(), counts.end(), int64_t{0}) == x.value.dim(0), "parts of {} rows",
          x.value.dim(0));
  std::vector<Variable> parts;
  std::vector<SlotPointer> slots;
  int64_t first = 0;
  for (const int64_t count : counts) {
    parts.push_back(tape.result(x.value.rows(first, count), {&x}));
    slots.push_back(parts.back().slot);
    first += count;
  }
  if (x.wants_gradient() && tape.recording()) {
    tape.on_backward([&k = tape.kernels(), x_slot = x.slot, slots = std::move(slots), counts] {
      std::vector<Tensor> gradients;
      for (const SlotPointer& slot : slots) gradients.push_back(take_gradient(slot));
      if (std::none_of(gradients.begin(), gradients.end(), [](const Tensor& g) { return g.defined(); })) return;
      require(x_slot->parameter == nullptr, "rows of a parameter");
      const bool accumulate = gradient_out(x_slot).accumulate;
      int64_t begin = 0;
      for (size_t i = 0; i < counts.size(); begin += counts[i++]) {
        const Tensor out = x_slot->gradient.rows(begin, counts[i]);
        const Tensor& g = gradients[i];
        if (!g.defined() && !accumulate) k.fill_zero(out.count(), out.reals());
        if (!g.defined()) continue;
        if (accumulate)
          k.linear_combination(g.count(), 1, out.reals(), 1, g.reals(), out.reals());
        else
          k.scale(g.count(), 1, g.reals(), out.reals());
      }
    });
  }
  return parts;
}

Variable join_rows(Tape& tape, const Tensor& whole, const std::vector<Variable>& parts) {
  Variable out = tape.result(whole, {});
  for (const Variable& part : parts)
    if (!out.wants_gradient()) out = tape.result(whole, {&part});
  if (out.wants_gradient()) {
    std::vector<SlotPointer> slots;
    std::vector<int64_t> counts;
    for (const Variable& part : parts) {
      slots.push_back(part.slot);
      counts.push_back(part.value.dim(0));
    }
    tape.on_backward([&k = tape.kernels(), out_slot = out.slot, slots = std::move(slots), counts = std::move(counts)] {
      const Tensor dout = take_gradient(out_slot);
      if (!dout.defined()) return;
      int64_t first = 0;
      for (size_t i = 0; i < slots.size(); first += counts[i++])
        pass_gradient(k, slots[i], dout.rows(first, counts[i]));
    });
  }
  return out;
}

}  // namespace heddle
