// Parameter updates: one pass over gradient, parameter and moments.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/operations.h"

namespace heddle::cuda {

namespace {

struct AdamWStep {
  AdamWCoefficients c;

  __device__ void operator()(float gradient, float old_parameter, float old_first, float old_second, float& parameter,
                             float& first, float& second) const {
    const float g = c.gradient_scale * gradient;
    first = c.beta1 * old_first + (1.0f - c.beta1) * g;
    second = c.beta2 * old_second + (1.0f - c.beta2) * g * g;
    const float keep = 1.0f - c.learning_rate * c.weight_decay, rate = c.learning_rate * c.inverse_correction1;
    parameter = old_parameter * keep - rate * first / (sqrtf(second) * c.inverse_sqrt_correction2 + c.eps);
  }
};

struct SgdStep {
  SgdCoefficients c;

  __device__ void operator()(float gradient, float old_parameter, float old_momentum, float& parameter,
                             float& momentum) const {
    momentum = c.momentum * old_momentum + c.gradient_scale * gradient;
    parameter = old_parameter * (1.0f - c.learning_rate * c.weight_decay) - c.learning_rate * momentum;
  }
};

const float* read(const float* vector) {
  return vector;
}

}  // namespace

void adamw(int64_t count, const AdamWCoefficients& c, const float* gradient, float* parameter, float* first,
           float* second) {
  for_each_element(count, AdamWStep{c}, gradient, read(parameter), read(first), read(second), parameter, first, second);
}

void sgd(int64_t count, const SgdCoefficients& c, const float* gradient, float* parameter, float* momentum) {
  for_each_element(count, SgdStep{c}, gradient, read(parameter), read(momentum), parameter, momentum);
}

}  // namespace heddle::cuda
