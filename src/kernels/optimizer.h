// Parameter updates, one tensor at a time.
#pragma once

#include <cstdint>

namespace heddle {

struct AdamWCoefficients {
  float learning_rate = 0;
  float beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  float gradient_scale = 1;            ///< clipping
  float inverse_correction1 = 1;       ///< 1 / (1 - beta1^m), m = step count of the tensor, from 1
  float inverse_sqrt_correction2 = 1;  ///< 1 / sqrt(1 - beta2^m)
};

/// Decoupled weight decay, docs/loom.md section 4.3:
///   p <- p (1 - lr wd); M <- b1 M + (1-b1) g; Q <- b2 Q + (1-b2) g^2; p <- p - lr M/(1-b1^m) / (sqrt(Q)/sqrt(1-b2^m) +
///   eps)
using AdamW = void(int64_t count, const AdamWCoefficients& c, const float* gradient, float* parameter, float* first,
                   float* second);

struct SgdCoefficients {
  float learning_rate = 0;
  float momentum = 0, weight_decay = 0;
  float gradient_scale = 1;
};

/// p <- p (1 - lr wd); m <- momentum m + g; p <- p - lr m.
using Sgd = void(int64_t count, const SgdCoefficients& c, const float* gradient, float* parameter, float* momentum);

}  // namespace heddle
