// The door of the emulated driver: what every call from the host passes first.
#pragma once

#include <cuda_runtime.h>

#include "runtime/sanitizers.h"

namespace cuda_emulation {

/// One host thread at a time is inside; the same thread may enter again. Invisible to ThreadSanitizer, and so is what
/// the host does inside: the driver's lock and its own data order nothing for its users.
class Entry {
 public:
  Entry();
  ~Entry();
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

 private:
  UnwatchedScope unwatched_;
};

/// While this thread waits for the device: lets other host threads enter.
void let_others_enter();

/// Remembers an error for cudaGetLastError of this thread, and returns it.
cudaError_t report(cudaError_t status);

}  // namespace cuda_emulation
