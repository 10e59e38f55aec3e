// cp.async, as cuda/async_copy.cuh describes it. A copy happens when its thread waits for it and not before, so that
// who reads too early reads what was there.
#pragma once

#include <cstddef>
#include <source_location>

namespace cuda_emulation {

/// global nullptr: zeros.
void copy_async(void* shared, const void* global, size_t bytes,
                const std::source_location& place = std::source_location::current());
void wait_for_copies();
void copy_async_commit();
void copy_async_wait(int groups_left);

}  // namespace cuda_emulation
