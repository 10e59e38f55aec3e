#include "tensor/memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

namespace heddle {

namespace {

class HostMemory : public Memory {
 public:
  void* take(int64_t bytes) override { return std::aligned_alloc(64, static_cast<size_t>(bytes)); }
  void give(void* block, int64_t) noexcept override { std::free(block); }
  bool host_readable() const override { return true; }
  void copy_in(void* to, const void* host, size_t bytes) override { copy(to, host, bytes); }
  void copy_out(void* host, const void* from, size_t bytes) override { copy(host, from, bytes); }
  void copy_within(void* to, const void* from, size_t bytes) override { copy(to, from, bytes); }
  void clear(void* at, size_t bytes) override {
    if (bytes > 0) std::memset(at, 0, bytes);
  }

 private:
  static void copy(void* to, const void* from, size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
};

class UntouchedMemory final : public HostMemory {
 public:
  void* take(int64_t bytes) override {
    void* const block = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return block == MAP_FAILED ? nullptr : block;
  }
  void give(void* block, int64_t bytes) noexcept override { ::munmap(block, static_cast<size_t>(bytes)); }
  bool gives_zeros() const override { return true; }
};

}  // namespace

// Neither is ever destroyed: tensors in static objects may be freed after any order of destruction we could choose.
Memory& host_memory() {
  static Memory* const memory = new HostMemory();
  return *memory;
}

Memory& untouched_memory() {
  static Memory* const memory = new UntouchedMemory();
  return *memory;
}

}  // namespace heddle
