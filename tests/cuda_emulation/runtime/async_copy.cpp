// Which copies to shared memory a thread has started and not waited for.
#include <cuda_emulation/async_copy.h>

#include "runtime/sanitizers.h"
#include "runtime/thread_block.h"

namespace cuda_emulation {

void remember_copy(const AsyncCopy& copy) {
  const UnwatchedScope unwatched;
  ThreadBlock& block = running_block();
  if (block.copies.empty()) block.copies.resize(kMostThreadsPerBlock);
  block.copies[static_cast<size_t>(running_thread()->number)].push_back(copy);
}

bool take_copy(AsyncCopy& copy) {
  ThreadBlock& block = running_block();
  if (block.copies.empty()) return false;
  std::deque<AsyncCopy>& copies = block.copies[static_cast<size_t>(running_thread()->number)];
  if (copies.empty()) return false;
  const UnwatchedScope unwatched;
  copy = copies.front();
  copies.pop_front();
  return true;
}

}  // namespace cuda_emulation
