// Non-linearities as vector loops over stretches.
#include <algorithm>

#include "kernels/cpu/operations.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vector_math.h"

namespace heddle::cpu {

namespace {

/// Calls body(first, last) for stretches of [0, count), on several threads when it pays.
template <typename Body>
void stretches(int64_t count, Body body) {
#pragma omp parallel for schedule(static) if (count > kParallelElements)
  for (int64_t first = 0; first < count; first += kStretch) body(first, std::min(first + kStretch, count));
}

}  // namespace

void swiglu_forward(int64_t count, const float* gate, const float* up, float* y) {
  stretches(count, [=](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; ++i) y[i] = gate[i] * vector_sigmoid(gate[i]) * up[i];
  });
}

void swiglu_backward(int64_t count, const float* gate, const float* up, const float* dy, float* dgate, float* dup) {
  stretches(count, [=](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; ++i) {
      const float g = gate[i], u = up[i], d = dy[i], s = vector_sigmoid(g);
      dgate[i] = d * u * s * (1.0F + g * (1.0F - s));
      dup[i] = d * g * s;
    }
  });
}

void sigmoid_gate_forward(int64_t count, const float* gate, const float* x, float* y) {
  stretches(count, [=](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; ++i) y[i] = vector_sigmoid(gate[i]) * x[i];
  });
}

void sigmoid_gate_backward(int64_t count, const float* gate, const float* x, const float* dy, float* dgate, float* dx) {
  stretches(count, [=](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; ++i) {
      const float s = vector_sigmoid(gate[i]), value = x[i], d = dy[i];
      dgate[i] = d * value * s * (1.0F - s);
      dx[i] = d * s;
    }
  });
}

void sigmoid_forward(int64_t count, const float* x, float* y) {
  stretches(count, [=](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; ++i) y[i] = vector_sigmoid(x[i]);
  });
}

void sigmoid_backward(int64_t count, const float* y, const float* dy, GradientOut dx) {
  if (!dx) return;
  stretches(count, [=](int64_t first, int64_t last) {
    if (dx.accumulate) {
#pragma omp simd
      for (int64_t i = first; i < last; ++i) dx.data[i] += dy[i] * y[i] * (1.0F - y[i]);
    } else {
#pragma omp simd
      for (int64_t i = first; i < last; ++i) dx.data[i] = dy[i] * y[i] * (1.0F - y[i]);
    }
  });
}

}  // namespace heddle::cpu
