// RMSNorm: y = gain * x / sqrt(mean(x^2) + eps) over the last axis; gain may be absent (nullptr).
#pragma once

#include "kernels/types.h"

namespace heddle {

/// x, y [rows,width]; inverse_rms [rows] = 1 / sqrt(mean(x^2) + eps), kept for the backward pass.
using RmsNormForward = void(int64_t rows, int64_t width, float eps, ConstReals x, const float* gain, Reals y,
                            float* inverse_rms);
/// dgain sums over rows in a fixed order that depends on neither thread count nor timing.
using RmsNormBackward = void(int64_t rows, int64_t width, ConstReals x, const float* gain, const float* inverse_rms,
                             ConstReals dy, RealsGradient dx, GradientOut dgain);

}  // namespace heddle
