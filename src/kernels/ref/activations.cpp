// Reference non-linearities.
#include <cmath>
#include <numbers>

#include "kernels/ref/operations.h"

namespace heddle::ref {

namespace {
double logistic(float x) {
  return 1 / (1 + std::exp(-static_cast<double>(x)));
}
/// Of the standard normal distribution, up to z.
double normal_probability(double z) {
  return std::erfc(-z / std::numbers::sqrt2) / 2;
}
}  // namespace

void swiglu_forward(int64_t count, const float* gate, const float* up, float* y) {
  for (int64_t i = 0; i < count; ++i)
    y[i] = static_cast<float>(static_cast<double>(gate[i]) * logistic(gate[i]) * static_cast<double>(up[i]));
}

void swiglu_backward(int64_t count, const float* gate, const float* up, const float* dy, float* dgate, float* dup) {
  for (int64_t i = 0; i < count; ++i) {
    const double g = static_cast<double>(gate[i]), s = logistic(gate[i]), u = static_cast<double>(up[i]);
    const double d = static_cast<double>(dy[i]);
    dgate[i] = static_cast<float>(d * u * s * (1 + g * (1 - s)));
    dup[i] = static_cast<float>(d * g * s);
  }
}

void activation_forward(Activation kind, int64_t count, const float* x, float* y) {
  for (int64_t i = 0; i < count; ++i) {
    const double z = static_cast<double>(x[i]), positive = z < 0 ? 0 : z;
    y[i] = static_cast<float>(kind == Activation::kGelu ? z * normal_probability(z) : positive * positive);
  }
}

void activation_backward(Activation kind, int64_t count, const float* x, const float* dy, float* dx) {
  for (int64_t i = 0; i < count; ++i) {
    const double z = static_cast<double>(x[i]);
    const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
    const double slope = kind == Activation::kGelu ? normal_probability(z) + z * density : 2 * (z < 0 ? 0 : z);
    dx[i] = static_cast<float>(static_cast<double>(dy[i]) * slope);
  }
}

void sigmoid_gate_forward(int64_t count, const float* gate, const float* x, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(logistic(gate[i]) * static_cast<double>(x[i]));
}

void sigmoid_gate_backward(int64_t count, const float* gate, const float* x, const float* dy, float* dgate, float* dx) {
  for (int64_t i = 0; i < count; ++i) {
    const double s = logistic(gate[i]), value = static_cast<double>(x[i]), d = static_cast<double>(dy[i]);
    dgate[i] = static_cast<float>(d * value * s * (1 - s));
    dx[i] = static_cast<float>(d * s);
  }
}

void sigmoid_forward(int64_t count, const float* x, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(logistic(x[i]));
}

void sigmoid_backward(int64_t count, const float* y, const float* dy, GradientOut dx) {
  for (int64_t i = 0; i < count; ++i)
    put(dx, i, static_cast<double>(dy[i]) * static_cast<double>(y[i]) * (1 - static_cast<double>(y[i])));
}

}  // namespace heddle::ref
