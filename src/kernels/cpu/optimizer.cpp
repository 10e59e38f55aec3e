// Parameter updates: one pass over gradient, parameter and moments.
#include <cmath>

#include "kernels/cpu/operations.h"
#include "support/parallel.h"

namespace heddle::cpu {

void adamw(int64_t count, const AdamWCoefficients& c, const float* gradient, float* parameter, float* first,
           float* second) {
  const float keep = 1.0F - c.learning_rate * c.weight_decay, rate = c.learning_rate * c.inverse_correction1;
  for_each_stretch(count, [=](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) {
      const float g = c.gradient_scale * gradient[i];
      const float m = c.beta1 * first[i] + (1.0F - c.beta1) * g;
      const float v = c.beta2 * second[i] + (1.0F - c.beta2) * g * g;
      first[i] = m;
      second[i] = v;
      parameter[i] = parameter[i] * keep - rate * m / (std::sqrt(v) * c.inverse_sqrt_correction2 + c.eps);
    }
  });
}

void sgd(int64_t count, const SgdCoefficients& c, const float* gradient, float* parameter, float* momentum) {
  const float keep = 1.0F - c.learning_rate * c.weight_decay;
  for_each_stretch(count, [=](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) {
      momentum[i] = c.momentum * momentum[i] + c.gradient_scale * gradient[i];
      parameter[i] = parameter[i] * keep - c.learning_rate * momentum[i];
    }
  });
}

}  // namespace heddle::cpu
