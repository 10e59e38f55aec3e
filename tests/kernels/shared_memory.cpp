#include "kernels/shared_memory.h"

#include <cstdint>
#include <cstdlib>
#include <map>

#include "support/error.h"
#ifdef HEDDLE_WITH_CUDA
#include "cuda/context.h"
#include "cuda/memory.h"
#endif

namespace heddle::test {

namespace {

std::map<uintptr_t, size_t>& blocks() {
  static auto& map = *new std::map<uintptr_t, size_t>;
  return map;
}

#ifdef HEDDLE_WITH_CUDA
void* take(size_t bytes) {
  return cuda::has_context() ? cuda::pinned_malloc(bytes) : std::malloc(bytes);
}
void give(void* block) {
  if (cuda::has_context())
    cuda::pinned_free(block);
  else
    std::free(block);
}
#else
void* take(size_t bytes) {
  return std::malloc(bytes);
}
void give(void* block) {
  std::free(block);
}
#endif

}  // namespace

void* shared_allocate(size_t bytes) {
  void* const block = take(bytes);
  require(block != nullptr, "no memory for {} bytes", bytes);
  blocks()[reinterpret_cast<uintptr_t>(block)] = bytes;
  return block;
}

void shared_release(void* block) noexcept {
  blocks().erase(reinterpret_cast<uintptr_t>(block));
  give(block);
}

SharedBlock shared_block(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  auto found = blocks().upper_bound(at);
  require(found != blocks().begin(), "not in an array of the test");
  --found;
  require(at <= found->first + found->second, "not in an array of the test");
  return {reinterpret_cast<void*>(found->first), found->second};
}

}  // namespace heddle::test
