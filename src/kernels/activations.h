// Element-wise non-linearities: SwiGLU, GELU and squared ReLU, sigmoid output gate, sigmoid.
#pragma once

#include "kernels/types.h"

namespace heddle {

/// y = silu(gate) * up, silu(x) = x * sigmoid(x).
using SwigluForward = void(int64_t count, ConstReals gate, ConstReals up, Reals y);
/// dgate and dup are overwritten; either may be the memory of gate, up or dy (element i is read before it is written).
using SwigluBackward = void(int64_t count, ConstReals gate, ConstReals up, ConstReals dy, Reals dgate, Reals dup);

enum class Activation {
  kGelu,   ///< x/2 (1 + erf(x / sqrt 2))
  kRelu2,  ///< max(0, x)^2
};

/// y = activation(x).
using ActivationForward = void(Activation kind, int64_t count, ConstReals x, Reals y);
/// dx is overwritten; it may be the memory of dy.
using ActivationBackward = void(Activation kind, int64_t count, ConstReals x, ConstReals dy, Reals dx);

/// y = sigmoid(gate) * x.
using SigmoidGateForward = void(int64_t count, ConstReals gate, ConstReals x, Reals y);
/// dgate and dx are overwritten; aliases as for SwigluBackward.
using SigmoidGateBackward = void(int64_t count, ConstReals gate, ConstReals x, ConstReals dy, Reals dgate, Reals dx);

/// y = sigmoid(x); y may be x.
using SigmoidForward = void(int64_t count, const float* x, float* y);
/// dx = dy * y * (1 - y), from the output y.
using SigmoidBackward = void(int64_t count, const float* y, const float* dy, GradientOut dx);

}  // namespace heddle
