// Element-wise non-linearities.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/stored.h"

namespace heddle::cuda {

namespace {

/// 0 and 1 at the ends: exp overflows to infinity.
__device__ __forceinline__ float logistic(float x) {
  return 1.0f / (1.0f + expf(-x));
}

struct Swiglu {
  __device__ void operator()(float gate, float up, float& y) const { y = gate * logistic(gate) * up; }
};

struct SwigluGradient {
  __device__ void operator()(float gate, float up, float dy, float& dgate, float& dup) const {
    const float s = logistic(gate);
    dgate = dy * up * s * (1.0f + gate * (1.0f - s));
    dup = dy * gate * s;
  }
};

struct SigmoidGate {
  __device__ void operator()(float gate, float x, float& y) const { y = logistic(gate) * x; }
};

struct SigmoidGateGradient {
  __device__ void operator()(float gate, float x, float dy, float& dgate, float& dx) const {
    const float s = logistic(gate);
    dgate = dy * x * s * (1.0f - s);
    dx = dy * s;
  }
};

struct Sigmoid {
  __device__ void operator()(float x, float& y) const { y = logistic(x); }
};

struct SigmoidGradient {
  __device__ void operator()(float y, float dy, float old, float& dx) const { dx = old + dy * y * (1.0f - y); }
};

constexpr float kInverseSqrt2 = 0.707106781f;
constexpr float kInverseSqrt2Pi = 0.398942280f;

/// Of the standard normal distribution, up to z; with small relative error in the tail too.
__device__ __forceinline__ float normal_probability(float z) {
  return 0.5f * erfcf(-kInverseSqrt2 * z);
}

__device__ __forceinline__ float positive_part(float x) {
  return x < 0.0f ? 0.0f : x;  // NaN stays NaN
}

struct Function {
  Activation kind;
  __device__ void operator()(float x, float& y) const {
    const float positive = positive_part(x);
    y = kind == Activation::kGelu ? x * normal_probability(x) : positive * positive;
  }
};

struct FunctionGradient {
  Activation kind;
  __device__ void operator()(float x, float dy, float& dx) const {
    dx = dy * (kind == Activation::kGelu ? normal_probability(x) + x * kInverseSqrt2Pi * expf(-0.5f * x * x)
                                         : 2.0f * positive_part(x));
  }
};

}  // namespace

void swiglu_forward(int64_t count, ConstReals gate, ConstReals up, Reals y) {
  with_stored(common_type({gate, up, y}),
              [&]<typename T>(T) { for_each_element(count, Swiglu(), stored<T>(gate), stored<T>(up), stored<T>(y)); });
}

void swiglu_backward(int64_t count, ConstReals gate, ConstReals up, ConstReals dy, Reals dgate, Reals dup) {
  with_stored(common_type({gate, up, dy, dgate, dup}), [&]<typename T>(T) {
    for_each_element(count, SwigluGradient(), stored<T>(gate), stored<T>(up), stored<T>(dy), stored<T>(dgate),
                     stored<T>(dup));
  });
}

void activation_forward(Activation kind, int64_t count, ConstReals x, Reals y) {
  with_stored(common_type({x, y}),
              [&]<typename T>(T) { for_each_element(count, Function{kind}, stored<T>(x), stored<T>(y)); });
}

void activation_backward(Activation kind, int64_t count, ConstReals x, ConstReals dy, Reals dx) {
  with_stored(common_type({x, dy, dx}), [&]<typename T>(T) {
    for_each_element(count, FunctionGradient{kind}, stored<T>(x), stored<T>(dy), stored<T>(dx));
  });
}

void sigmoid_gate_forward(int64_t count, ConstReals gate, ConstReals x, Reals y) {
  with_stored(common_type({gate, x, y}), [&]<typename T>(T) {
    for_each_element(count, SigmoidGate(), stored<T>(gate), stored<T>(x), stored<T>(y));
  });
}

void sigmoid_gate_backward(int64_t count, ConstReals gate, ConstReals x, ConstReals dy, Reals dgate, Reals dx) {
  with_stored(common_type({gate, x, dy, dgate, dx}), [&]<typename T>(T) {
    for_each_element(count, SigmoidGateGradient(), stored<T>(gate), stored<T>(x), stored<T>(dy), stored<T>(dgate),
                     stored<T>(dx));
  });
}

void sigmoid_forward(int64_t count, const float* x, float* y) {
  for_each_element(count, Sigmoid(), x, y);
}

void sigmoid_backward(int64_t count, const float* y, const float* dy, GradientOut dx) {
  if (!dx) return;
  const float* const old = dx.accumulate ? dx.data : nullptr;
  for_each_element(count, SigmoidGradient(), y, dy, old, dx.data);
}

}  // namespace heddle::cuda
