// When a loop is worth a team of threads, and stretches of it that do not depend on how many there are.
#pragma once

#include <cstdint>

namespace heddle::cpu {

/// Elements below which a loop stays on one thread.
inline constexpr int64_t kParallelElements = 32768;
/// Elements of one stretch of an element-wise loop: fits in the first cache, the same at any thread count.
inline constexpr int64_t kStretch = 4096;

}  // namespace heddle::cpu
