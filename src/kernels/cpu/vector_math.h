// Branch-free functions that the compiler turns into vector code inside `#pragma omp simd` loops.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace heddle::cpu {

/// exp(x) to about 1 unit in the last place over the whole range: 0 below -104 (also -inf), inf above 88.73, NaN stays
/// NaN. x = n ln 2 + r with |r| <= ln 2 / 2, a polynomial for exp(r) (Taylor coefficients, error below 1e-8), and
/// scaling by 2^n in two steps so that neither factor overflows.
inline float vector_exp(float x) {
  constexpr float kLow = -104.0F, kHigh = 89.0F;
  constexpr float kLog2e = 1.44269504088896341F, kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  constexpr float kRoundShift = 12582912.0F;  // 1.5 * 2^23: adding it rounds to the nearest integer
  const float bounded_low = x < kLow ? kLow : x;
  const float bounded = bounded_low > kHigh ? kHigh : bounded_low;
  const float shifted = bounded * kLog2e + kRoundShift;
  const float n = shifted - kRoundShift;
  const float r = (bounded - n * kLn2High) - n * kLn2Low;
  float p = 1.0F / 5040;
  p = p * r + 1.0F / 720;
  p = p * r + 1.0F / 120;
  p = p * r + 1.0F / 24;
  p = p * r + 1.0F / 6;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const int32_t exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRoundShift);
  const int32_t half = exponent >> 1;
  const float first = std::bit_cast<float>((half + 127) << 23);
  const float second = std::bit_cast<float>((exponent - half + 127) << 23);
  return p * first * second;
}

inline float vector_sigmoid(float x) {
  return 1.0F / (1.0F + vector_exp(-x));
}

/// exp(-z^2 / 2).
inline float vector_bell(float z) {
  return vector_exp(-0.5F * z * z);
}

/// Probability that a standard normal number is below z, from bell = vector_bell(z). Both tails keep relative
/// precision: for z < 0 it is bell * t * p(t) with t = 1 / (1 + 0.3 |z|), p a minimax polynomial with relative error
/// below 4e-9.
inline float vector_normal_probability(float z, float bell) {
  const float size = z < 0 ? -z : z;
  const float t = 1.0F / (1.0F + 0.3F * size);
  float p = -0.02062998051F;
  p = p * t + 0.1124722122F;
  p = p * t - 0.2283029F;
  p = p * t + 0.1919084356F;
  p = p * t - 0.07953099492F;
  p = p * t + 0.09621718963F;
  p = p * t + 0.07836777267F;
  p = p * t + 0.1102403496F;
  p = p * t + 0.1195711905F;
  p = p * t + 0.1196867236F;
  const float tail = bell * t * p;
  return z < 0 ? tail : 1.0F - tail;
}

/// tanh(x) to a few units in the last place: x times a minimax polynomial in x^2 near zero (relative error below 4e-9),
/// by exp elsewhere. NaN stays NaN.
inline float vector_tanh(float x) {
  constexpr float kNear = 0.625F;
  const float size = x < 0 ? -x : x, square = x * x;
  float p = -0.005659986682F;
  p = p * square + 0.02059098605F;
  p = p * square - 0.05372106724F;
  p = p * square + 0.1333112753F;
  p = p * square - 0.3333326053F;
  p = p * square + 1.0F;
  const float far = 1.0F - 2.0F / (1.0F + vector_exp(2.0F * size));
  const float signed_far = x < 0 ? -far : far;
  return size < kNear ? x * p : signed_far;
}

/// ln x to about 1 unit in the last place, for normal x > 0; finite at 0, NaN stays NaN. x = 2^n m with m in
/// [sqrt 1/2, sqrt 2), and ln m = 2 atanh(s) with s = (m - 1) / (m + 1), |s| < 0.172 (its series, error below 1e-16).
inline double vector_log(double x) {
  constexpr double kLn2 = 0.693147180559945309;
  constexpr double kTwo52 = 4503599627370496.0;  // an integer below it, in its low bits, is added to it
  constexpr uint64_t kOne = 0x3FF0000000000000, kRootHalf = 0x3FE6A09E667F3BCD, kFraction = 0x000FFFFFFFFFFFFF;
  const uint64_t shifted = std::bit_cast<uint64_t>(x) + (kOne - kRootHalf);
  const double n = std::bit_cast<double>((shifted >> 52) | std::bit_cast<uint64_t>(kTwo52)) - (kTwo52 + 1023);
  const double m = std::bit_cast<double>((shifted & kFraction) + kRootHalf);
  const double s = (m - 1) / (m + 1), square = s * s;
  double p = 1.0 / 19;
  p = p * square + 1.0 / 17;
  p = p * square + 1.0 / 15;
  p = p * square + 1.0 / 13;
  p = p * square + 1.0 / 11;
  p = p * square + 1.0 / 9;
  p = p * square + 1.0 / 7;
  p = p * square + 1.0 / 5;
  p = p * square + 1.0 / 3;
  p = p * square + 1.0;
  return n * kLn2 + 2 * s * p + (x - x);  // the last is 0, or NaN
}

/// An integer that sorts like the number; its own inverse on the bits. NaN lies beyond the infinities.
inline int32_t sort_key(float x) {
  const auto bits = std::bit_cast<int32_t>(x);
  return bits ^ ((bits >> 31) & std::numeric_limits<int32_t>::max());
}

/// Largest of count > 0 numbers, by integers, because their maximum is one instruction also across a vector. A NaN may
/// be the result or may be passed over.
inline float vector_max(int64_t count, const float* x) {
  int32_t largest = std::numeric_limits<int32_t>::min();
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < count; ++i) {
    const int32_t key = sort_key(x[i]);
    largest = key > largest ? key : largest;
  }
  return std::bit_cast<float>(largest ^ ((largest >> 31) & std::numeric_limits<int32_t>::max()));
}

}  // namespace heddle::cpu
