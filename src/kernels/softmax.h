// Softmax over rows, and the square of its normaliser that keeps router logits small.
#pragma once

#include "kernels/types.h"

namespace heddle {

/// y[r,:] = exp(x[r,:]) / sum exp(x[r,:]); x, y [rows,width], y may be x, width > 0.
using SoftmaxForward = void(int64_t rows, int64_t width, const float* x, float* y);
/// dx[r,:] = y[r,:] * (dy[r,:] - dy[r,:] . y[r,:]), from the output y.
using SoftmaxBackward = void(int64_t rows, int64_t width, const float* y, const float* dy, GradientOut dx);

/// square[r] = logsumexp(x[r,:])^2, double; dx = gradient_scale * dsquare[r]/dx.
using SquaredLogSumExp = void(int64_t rows, int64_t width, float gradient_scale, const float* x, double* square,
                              GradientOut dx);

}  // namespace heddle
