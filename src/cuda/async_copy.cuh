// Copies from global to shared memory that pass no registers and run while the thread goes on. The thread that started
// a copy waits for it; a barrier behind that shows it to the block. The destination may hold anything in between.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace heddle::cuda {

/// Starts to copy kBytes (4, 8 or 16, which both addresses must be multiples of), or to write as many zeros where not
/// `wanted`; `global` must then still be an address in some array.
template <int kBytes>
__device__ __forceinline__ void copy_async(void* shared, const void* global, bool wanted = true) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
#ifdef __CUDACC__
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const int bytes_read = wanted ? kBytes : 0;
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(bytes_read) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(global), "n"(kBytes), "r"(bytes_read)
                 : "memory");
#else
  cuda_emulation::copy_async(shared, wanted ? global : nullptr, kBytes);
#endif
}

/// The copies since the last call become a group.
__device__ __forceinline__ void copy_async_commit() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  cuda_emulation::copy_async_commit();
#endif
}

/// Waits until at most kGroups of the thread's newest groups are still under way.
template <int kGroups>
__device__ __forceinline__ void copy_async_wait() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
#else
  cuda_emulation::copy_async_wait(kGroups);
#endif
}

/// Waits for all copies that this thread has started.
__device__ __forceinline__ void wait_for_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_all;" ::: "memory");
#else
  cuda_emulation::wait_for_copies();
#endif
}

}  // namespace heddle::cuda
