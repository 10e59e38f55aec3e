// What kernels are told about their arguments.
#pragma once

#include <cstdint>

namespace heddle {

/// Where a gradient goes. Every backward kernel writes each gradient through one of these:
/// data == nullptr: not wanted; accumulate false: overwrite (the memory may hold anything, also NaN); true: add to it.
struct GradientOut {
  float* data = nullptr;
  bool accumulate = false;
  explicit operator bool() const { return data != nullptr; }
};

/// Target label of a position that does not count in the loss.
inline constexpr int32_t kIgnoredTarget = -100;

}  // namespace heddle
