// Sums that blocks leave for each other, on their way to a number on the device.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/launch_shape.h"

namespace heddle::cuda {

/// Blocks of a kernel that walks `items` and leaves a sum for each block: the number depends on the shape only, and
/// with it the order of the sums.
inline unsigned blocks_with_sums(int64_t items, int64_t items_per_block) {
  return static_cast<unsigned>(std::min<int64_t>(block_count(items, items_per_block), 1024));
}

/// totals[s] += scale * (partials[s, 0] + partials[s, 1] + ...), partials [sums, count], in a fixed order.
void add_partial_sums(int64_t sums, int64_t count, double scale, const double* partials, double* totals);

}  // namespace heddle::cuda
