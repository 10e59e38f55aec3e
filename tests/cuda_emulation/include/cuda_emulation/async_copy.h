// cp.async, as cuda/async_copy.cuh describes it. A copy arrives when its thread waits for it and not before, and from
// its beginning on the destination holds 0xff bytes, which are NaN: so it shows who reads too early, and who copies
// onto what others still read.
#pragma once

#include <cstddef>
#include <source_location>

namespace cuda_emulation {

/// Zeros where `global` is nullptr.
void copy_async(void* shared, const void* global, size_t bytes,
                const std::source_location& place = std::source_location::current());
void copy_async_commit();
void copy_async_wait(int groups_left);

}  // namespace cuda_emulation
