// Linear combinations of vectors.
#pragma once

#include "kernels/types.h"

namespace heddle {

/// out = alpha * x + beta * y; out may be x or y.
using LinearCombination = void(int64_t count, float alpha, const float* x, float beta, const float* y, float* out);
/// out = alpha * x; out may be x.
using Scale = void(int64_t count, float alpha, const float* x, float* out);
/// x = 0, whatever it held.
using FillZero = void(int64_t count, float* x);
/// Sum of squares in double, in a fixed order that does not depend on the thread count.
using SumOfSquares = double(int64_t count, const float* x);

/// out = base + sum over k < terms of weights[k] * xs[k], added in this order; base nullptr: zero. Vectors of `count`
/// elements; `xs` itself lies on the host. out may be base.
using WeightedSumForward = void(int64_t count, int64_t terms, const float* base, const float* weights,
                                const float* const* xs, float* out);
/// Of one term: dx = *weight * dout, dweight (one element) = dout . x, the sum in double and in a fixed order that does
/// not depend on the thread count. weight is read only for dx, x only for dweight.
using WeightedTermBackward = void(int64_t count, const float* weight, const float* x, const float* dout, GradientOut dx,
                                  GradientOut dweight);

}  // namespace heddle
