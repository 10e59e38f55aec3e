// Copies from device memory into shared memory that run beside the calling thread (cp.async, since Ampere). A thread
// waits for its own copies only: a barrier must follow before others read what it copied. All copies are waited for
// before the thread ends.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace heddle::cuda {

/// Begins a copy of kBytes: 4, 8 or 16, and both addresses are multiples of that. Where not `wanted`, zeros are written
/// instead, and `global` is still an address that may be read. `shared` points into shared memory.
template <int kBytes>
__device__ __forceinline__ void copy_async(void* shared, const void* global, bool wanted = true) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
#ifdef __CUDACC__
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const int bytes_read = wanted ? kBytes : 0;
  if constexpr (kBytes == 16)  // past the L1 cache, which the other sizes cannot
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global), "r"(bytes_read)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(global), "n"(kBytes),
                 "r"(bytes_read)
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

}  // namespace heddle::cuda
