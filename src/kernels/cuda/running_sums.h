// Running sums of a long list on the device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/scratch.h"

namespace heddle::cuda {

/// Scratch that running_sums takes.
size_t running_sums_bytes(int64_t count);

/// sums[i] = counts[0] + ... + counts[i - 1] for i <= count.
void running_sums(int64_t count, const int32_t* counts, int64_t* sums, Scratch& scratch);

}  // namespace heddle::cuda
