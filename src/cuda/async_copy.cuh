// Copies from device memory into shared memory that run beside the calling thread (cp.async, since Ampere). A thread
// waits for its own copies only: a barrier must follow before others read what it copied. All copies are waited for
// before the thread ends.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace heddle::cuda {

/// Begins a copy of 16 bytes; both addresses are multiples of 16. `shared` points into shared memory.
__device__ __forceinline__ void copy_async_16(void* shared, const void* global) {
#ifdef __CUDACC__
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global) : "memory");
#else
  cuda_emulation::copy_async_16(shared, global);
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
