// Linear combinations of vectors. Each vector has a storage type of its own.
#pragma once

#include "kernels/types.h"

namespace heddle {

/// out = alpha * x + beta * y; out may be x or y.
using LinearCombination = void(int64_t count, float alpha, ConstReals x, float beta, ConstReals y, Reals out);
/// out = alpha * x; out may be x. With alpha = 1 a copy, which may change the storage type.
using Scale = void(int64_t count, float alpha, ConstReals x, Reals out);
/// x = 0, whatever it held.
using FillZero = void(int64_t count, Reals x);
/// Sum of squares in double, in a fixed order that does not depend on the thread count.
using SumOfSquares = double(int64_t count, ConstReals x);
/// The same of many vectors at once: lists and answers lie on the host.
struct Stretch {
  const float* data = nullptr;
  int64_t count = 0;
};
using SumsOfSquares = void(int64_t stretches, const Stretch* list, double* sums);
/// Sum of x, or of its squares, on the host; on a CPU in order.
using SumDoubles = double(int64_t count, const double* x, bool squares);

/// out = base + sum over k < terms of weights[k] * xs[k], added in this order; base nullptr: zero. Vectors of `count`
/// elements; `xs` itself lies on the host. out may be base.
using WeightedSumForward = void(int64_t count, int64_t terms, ConstReals base, const float* weights,
                                const ConstReals* xs, Reals out);
/// Of one term: dx = *weight * dout, dweight (one element) = dout . x, the sum in double and in a fixed order that does
/// not depend on the thread count. weight is read only for dx, x only for dweight.
using WeightedTermBackward = void(int64_t count, const float* weight, ConstReals x, ConstReals dout, RealsGradient dx,
                                  GradientOut dweight);

}  // namespace heddle
