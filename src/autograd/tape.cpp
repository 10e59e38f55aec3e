#include "autograd/tape.h"

namespace heddle {

RealsGradient gradient_out(const SlotPointer& slot) {
  if (slot == nullptr) return {};
  if (slot->parameter != nullptr) {
    Parameter& p = *slot->parameter;
    require(p.gradient.defined(), "parameter '{}' has no gradient memory", p.name);
    require(!p.summed, "the gradient of '{}' grows after ranks began to sum it", p.name);
    const bool accumulate = p.has_gradient;
    p.has_gradient = true;
    return {p.gradient.reals(), accumulate};
  }
  const bool accumulate = slot->gradient.defined();
  if (!accumulate) slot->gradient = Tensor::empty(slot->shape, Purpose::kActivations, slot->dtype, slot->row_capacity);
  return {slot->gradient.reals(), accumulate};
}

GradientOut float_gradient_out(const SlotPointer& slot) {
  const RealsGradient out = gradient_out(slot);
  if (!out) return {};
  require(out.data.type == RealType::kFloat32, "the gradient of a value {} is not float32", shape_text(slot->shape));
  return {static_cast<float*>(out.data.data), out.accumulate};
}

void pass_gradient(const Kernels& kernels, const SlotPointer& slot, Tensor gradient) {
  if (slot == nullptr) return;
  if (slot->parameter == nullptr && !slot->gradient.defined() && gradient.dtype() == slot->dtype) {
    slot->gradient = std::move(gradient);
    return;
  }
  const RealsGradient out = gradient_out(slot);
  if (out.accumulate)
    kernels.linear_combination(gradient.count(), 1.0F, out.data, 1.0F, gradient.reals(), out.data);
  else
    kernels.scale(gradient.count(), 1.0F, gradient.reals(), out.data);
}

Tensor take_gradient(const SlotPointer& slot) {
  if (slot == nullptr) return {};
  return std::exchange(slot->gradient, Tensor());
}

Variable Tape::leaf(Tensor value) const {
  auto slot = std::make_shared<GradientSlot>();
  slot->shape = value.shape();
  slot->dtype = value.dtype();
  return {std::move(value), std::move(slot), {}};
}

Variable Tape::parameter(Parameter& asked) {
  Parameter& p = substitution_ != nullptr ? substitution_->stand_in(asked) : asked;
  if (!recording()) return {p.value, nullptr, p.narrow};
  if (listener_ != nullptr && used_.insert(&p).second) {
    // Under all closures that will add to the gradient, so it runs behind them.
    listener_->used(p);
    closures_.emplace_back([listener = listener_, &p] { listener->unwound(p); });
  }
  auto slot = std::make_shared<GradientSlot>();
  slot->shape = p.value.shape();
  slot->parameter = &p;
  return {p.value, std::move(slot), p.narrow};
}

Variable Tape::result(Tensor value, std::initializer_list<const Variable*> inputs) const {
  Variable output{std::move(value), nullptr, {}};
  if (!recording()) return output;
  for (const Variable* input : inputs) {
    if (!input->wants_gradient()) continue;
    output.slot = std::make_shared<GradientSlot>();
    output.slot->shape = output.value.shape();
    output.slot->dtype = output.value.dtype();
    output.slot->row_capacity = output.value.row_capacity();
    break;
  }
  return output;
}

void Tape::backward() {
  while (!closures_.empty()) {
    const std::function<void()> closure = std::move(closures_.back());
    closures_.pop_back();
    closure();
  }
}

}  // namespace heddle
