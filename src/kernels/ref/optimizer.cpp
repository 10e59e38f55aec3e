// Reference parameter updates.
#include <cmath>

#include "kernels/ref/operations.h"

namespace heddle::ref {

void adamw(int64_t count, const AdamWCoefficients& c, const float* gradient, float* parameter, float* first,
           float* second) {
  for (int64_t i = 0; i < count; ++i) {
    const float g = c.gradient_scale * gradient[i];
    first[i] = c.beta1 * first[i] + (1 - c.beta1) * g;
    second[i] = c.beta2 * second[i] + (1 - c.beta2) * g * g;
    const float denominator = std::sqrt(second[i]) * c.inverse_sqrt_correction2 + c.eps;
    const float decayed = parameter[i] * (1 - c.learning_rate * c.weight_decay);
    parameter[i] = decayed - c.learning_rate * c.inverse_correction1 * first[i] / denominator;
  }
}

void sgd(int64_t count, const SgdCoefficients& c, const float* gradient, float* parameter, float* momentum) {
  for (int64_t i = 0; i < count; ++i) {
    momentum[i] = c.momentum * momentum[i] + c.gradient_scale * gradient[i];
    parameter[i] = parameter[i] * (1 - c.learning_rate * c.weight_decay) - c.learning_rate * momentum[i];
  }
}

}  // namespace heddle::ref
