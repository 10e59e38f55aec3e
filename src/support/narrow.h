// Checked conversions of sizes: a number that does not fit, or a division with a remainder, throws.
#pragma once

#include <cstdint>
#include <utility>

#include "support/error.h"

namespace heddle {

/// Converts an integer to To, throwing Error when the value does not fit.
template <typename To, typename From>
To narrow(From value) {
  if (!std::in_range<To>(value)) fail("size {} does not fit into {} bytes", value, sizeof(To));
  return static_cast<To>(value);
}

/// numerator / denominator for a division that must come out even; `what` names it in the error.
inline int64_t div_exact(int64_t numerator, int64_t denominator, const char* what) {
  if (denominator == 0 || numerator % denominator != 0)
    fail("{}: {} is not divisible by {}", what, numerator, denominator);
  return numerator / denominator;
}

inline int64_t div_up(int64_t numerator, int64_t denominator) {
  return (numerator + denominator - 1) / denominator;
}

}  // namespace heddle
