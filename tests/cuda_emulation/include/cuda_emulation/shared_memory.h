// Shared memory of the running block (the macros of cuda/shared_memory.cuh). It comes filled with 0xff bytes, which are
// NaN as numbers, and with red zones on both sides.
#pragma once

#include <cstddef>
#include <source_location>

namespace cuda_emulation {

/// The static array that `identity` stands for; all threads of the block get the same.
void* static_shared(const void* identity, size_t bytes, const std::source_location& place);
void* dynamic_shared(const std::source_location& place);

}  // namespace cuda_emulation
