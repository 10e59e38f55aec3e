// The tape: a record of what was computed, unwound once to give gradients. An operation computes its value at once and,
// while the tape records, leaves a closure that turns the gradient of its output into gradients of its inputs. A
// closure is destroyed right after it ran, and with it the tensors it had saved: the peak is one segment, never the
// whole run.
//
// Rules for operations:
// - capture only the tensors that the backward pass reads, and gradient slots, not variables;
// - whether a closure runs depends on the graph alone, never on data: closures contain collectives.
#pragma once

#include <functional>
#include <memory>
#include <unordered_set>
#include <vector>

#include "autograd/parameter.h"
#include "kernels/kernels.h"
#include "tensor/tensor.h"

namespace heddle {

/// Where the gradient of one value gathers.
struct GradientSlot {
  Shape shape;
  DType dtype = DType::kFloat32;
  int64_t row_capacity = 0;        ///< of the value, and so of its gradient
  Tensor gradient;                 ///< undefined until something arrives
  Parameter* parameter = nullptr;  ///< gradients go to the parameter's own buffer instead
};
using SlotPointer = std::shared_ptr<GradientSlot>;  ///< null: no gradient wanted

/// A value on the tape.
struct Variable {
  Tensor value;
  SlotPointer slot;
  Tensor narrow;  ///< of a weight: its bfloat16 copy, where activations are bfloat16
  bool wants_gradient() const { return slot != nullptr; }
};

/// Destination of a gradient of `slot`, allocated on first use and stored as the value is (float32 for a parameter);
/// null for a null slot.
RealsGradient gradient_out(const SlotPointer& slot);
/// The same for what is float32 everywhere: parameters, and what routers compute.
GradientOut float_gradient_out(const SlotPointer& slot);
/// Hands a finished gradient to `slot`: moved in when it is the first, added otherwise. The tensor must not be shared.
void pass_gradient(const Kernels& kernels, const SlotPointer& slot, Tensor gradient);
/// Takes the gradient out of a slot; undefined if none arrived.
Tensor take_gradient(const SlotPointer& slot);

/// Learns when the gradients of parameters are complete.
class GradientListener {
 public:
  virtual ~GradientListener() = default;
  virtual void used(Parameter& p) = 0;     ///< by a tape, which will say unwound() once
  virtual void unwound(Parameter& p) = 0;  ///< that tape adds no more to the gradient
};

/// Stands in for parameters: a visit can have weights or a gradient of its own while the model's stay untouched.
class ParameterSubstitution {
 public:
  virtual ~ParameterSubstitution() = default;
  /// p itself, or another parameter of its shapes that outlives the tape. Asked at every use.
  virtual Parameter& stand_in(Parameter& p) = 0;
};

class Tape {
 public:
  enum class Mode { kRecord, kForwardOnly };
  /// activations: how values between operations are stored, kFloat32 or kBfloat16.
  explicit Tape(const Kernels& kernels, Mode mode = Mode::kRecord, DType activations = DType::kFloat32)
      : kernels_(kernels), mode_(mode), activations_(activations) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  const Kernels& kernels() const { return kernels_; }
  DType activations() const { return activations_; }
  bool recording() const { return mode_ == Mode::kRecord; }

  /// A value without gradient: the input of a segment, or a detached state.
  static Variable constant(Tensor value) { return {std::move(value), nullptr, {}}; }
  /// A value whose gradient the caller reads with take_gradient after backward() (tests, boundaries).
  Variable leaf(Tensor value) const;
  Variable parameter(Parameter& asked);
  /// Tells `listener` of the parameters that are used from now on; null: nobody.
  void set_listener(GradientListener* listener) { listener_ = listener; }
  /// What is used in place of parameters from now on; null: they themselves.
  void set_substitution(ParameterSubstitution* substitution) { substitution_ = substitution; }

  /// The result of an operation: wants a gradient if the tape records and any input does.
  Variable result(Tensor value, std::initializer_list<const Variable*> inputs) const;
  /// Leaves the closure of the operation that made an output that wants a gradient.
  void on_backward(std::function<void()> closure) { closures_.push_back(std::move(closure)); }

  /// Runs the closures from last to first, freeing each. Roots seed their own slots (see cross_entropy_head).
  void backward();

 private:
  const Kernels& kernels_;
  Mode mode_;
  DType activations_;
  GradientListener* listener_ = nullptr;
  ParameterSubstitution* substitution_ = nullptr;
  std::vector<std::function<void()>> closures_;
  std::unordered_set<const Parameter*> used_;  ///< of which the listener knows
};

}  // namespace heddle
