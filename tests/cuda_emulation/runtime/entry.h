// The door of the emulated driver: what every call from the host passes first.
#pragma once

#include <cuda_runtime.h>

namespace cuda_emulation {

/// One host thread at a time is inside. Invisible to ThreadSanitizer: the driver's own lock orders nothing for its
/// users. The same thread may enter again.
class Entry {
 public:
  Entry();
  ~Entry();
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
};

/// While this thread waits for the device: lets other host threads enter.
void let_others_enter();

/// Remembers an error for cudaGetLastError of this thread, and returns it.
cudaError_t report(cudaError_t status);

}  // namespace cuda_emulation
