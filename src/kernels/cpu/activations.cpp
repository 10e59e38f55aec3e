// Non-linearities as vector loops over stretches.
#include <numbers>

#include "kernels/cpu/operations.h"
#include "kernels/cpu/vector_math.h"
#include "support/parallel.h"

namespace heddle::cpu {

void swiglu_forward(int64_t count, const float* gate, const float* up, float* y) {
  for_each_stretch(count, [=](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; ++i) y[i] = gate[i] * vector_sigmoid(gate[i]) * up[i];
  });
}

void swiglu_backward(int64_t count, const float* gate, const float* up, const float* dy, float* dgate, float* dup) {
  for_each_stretch(count, [=](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; ++i) {
      const float g = gate[i], u = up[i], d = dy[i], s = vector_sigmoid(g);
      dgate[i] = d * u * s * (1.0F + g * (1.0F - s));
      dup[i] = d * g * s;
    }
  });
}

void activation_forward(Activation kind, int64_t count, const float* x, float* y) {
  for_each_stretch(count, [=](int64_t first, int64_t last) {
    if (kind == Activation::kGelu) {
#pragma omp simd
      for (int64_t i = first; i < last; ++i) y[i] = x[i] * vector_normal_probability(x[i], vector_bell(x[i]));
    } else {
#pragma omp simd
      for (int64_t i = first; i < last; ++i) {
        const float positive = x[i] < 0 ? 0.0F : x[i];
        y[i] = positive * positive;
      }
    }
  });
}

void activation_backward(Activation kind, int64_t count, const float* x, const float* dy, float* dx) {
  constexpr auto kPeak = static_cast<float>(std::numbers::inv_sqrtpi / std::numbers::sqrt2);  // of the normal density
  for_each_stretch(count, [=](int64_t first, int64_t last) {
    if (kind == Activation::kGelu) {
#pragma omp simd
      for (int64_t i = first; i < last; ++i) {
        const float z = x[i], bell = vector_bell(z);
        dx[i] = dy[i] * (vector_normal_probability(z, bell) + z * kPeak * bell);
      }
    } else {
#pragma omp simd
      for (int64_t i = first; i < last; ++i) dx[i] = dy[i] * 2.0F * (x[i] < 0 ? 0.0F : x[i]);
    }
  });
}

void sigmoid_gate_forward(int64_t count, const float* gate, const float* x, float* y) {
  for_each_stretch(count, [=](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; ++i) y[i] = vector_sigmoid(gate[i]) * x[i];
  });
}

void sigmoid_gate_backward(int64_t count, const float* gate, const float* x, const float* dy, float* dgate, float* dx) {
  for_each_stretch(count, [=](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; ++i) {
      const float s = vector_sigmoid(gate[i]), value = x[i], d = dy[i];
      dgate[i] = d * value * s * (1.0F - s);
      dx[i] = d * s;
    }
  });
}

void sigmoid_forward(int64_t count, const float* x, float* y) {
  for_each_stretch(count, [=](int64_t first, int64_t last) {
#pragma omp simd
    for (int64_t i = first; i < last; ++i) y[i] = vector_sigmoid(x[i]);
  });
}

void sigmoid_backward(int64_t count, const float* y, const float* dy, GradientOut dx) {
  if (!dx) return;
  for_each_stretch(count, [=](int64_t first, int64_t last) {
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
