// Linear combinations of vectors.
#pragma once

#include <cstdint>

namespace heddle {

/// out = alpha * x + beta * y; out may be x or y.
using LinearCombination = void(int64_t count, float alpha, const float* x, float beta, const float* y, float* out);
/// out = alpha * x; out may be x.
using Scale = void(int64_t count, float alpha, const float* x, float* out);
/// Sum of squares in double, in a fixed order that does not depend on the thread count.
using SumOfSquares = double(int64_t count, const float* x);

}  // namespace heddle
