// Which copies to shared memory a thread has started and not waited for.
#include <cuda_emulation/async_copy.h>

#include "runtime/sanitizers.h"
#include "runtime/thread_block.h"

namespace cuda_emulation {

void remember_copy(const AsyncCopy& copy) {
  const UnwatchedScope unwatched;
  running_thread()->copies.push_back(copy);
}

bool take_copy(AsyncCopy& copy) {
  std::deque<AsyncCopy>& copies = running_thread()->copies;
  if (copies.empty()) return false;
  const UnwatchedScope unwatched;
  copy = copies.front();
  copies.pop_front();
  return true;
}

}  // namespace cuda_emulation
