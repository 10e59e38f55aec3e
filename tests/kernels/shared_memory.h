// Memory that the host and every device under test can reach, and that remembers its blocks.
#pragma once

#include <cstddef>
#include <vector>

namespace heddle::test {

void* shared_allocate(size_t bytes);
void shared_release(void* block) noexcept;

struct SharedBlock {
  void* begin = nullptr;
  size_t bytes = 0;
};
/// The block that `address` lies in; fails the program where there is none.
SharedBlock shared_block(const void* address);

template <typename T>
struct SharedAllocator {
  using value_type = T;
  SharedAllocator() = default;
  template <typename U>
  SharedAllocator(const SharedAllocator<U>&) {}  // NOLINT(google-explicit-constructor)
  T* allocate(size_t count) { return static_cast<T*>(shared_allocate(count * sizeof(T))); }
  void deallocate(T* block, size_t) noexcept { shared_release(block); }
  bool operator==(const SharedAllocator&) const { return true; }
};

template <typename T>
using Array = std::vector<T, SharedAllocator<T>>;

}  // namespace heddle::test
