// Copies to shared memory that run on their own, as cuda/async_copy.cuh describes them. The data arrive when the thread
// waits, as late as a device may bring them; until then the destination holds NaN, so neither a missing wait nor a copy
// onto what others still read goes unseen.
#pragma once

#include <cstring>

namespace cuda_emulation {

struct AsyncCopy {
  void* shared;
  const void* global;  ///< nullptr: zeros
  int bytes;
};

/// The running thread's copies that have not arrived: one more, and the oldest taken out (false: there is none).
void remember_copy(const AsyncCopy& copy);
bool take_copy(AsyncCopy& copy);

inline void copy_async(void* shared, const void* global, int bytes) {
  memset(shared, 0xff, static_cast<size_t>(bytes));
  remember_copy({shared, global, bytes});
}

inline void wait_for_copies() {
  for (AsyncCopy copy; take_copy(copy);) {
    if (copy.global == nullptr)
      memset(copy.shared, 0, static_cast<size_t>(copy.bytes));
    else
      memcpy(copy.shared, copy.global, static_cast<size_t>(copy.bytes));
  }
}

}  // namespace cuda_emulation
