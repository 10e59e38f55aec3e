#include "cuda/scratch.h"

#include <algorithm>

#include "cuda/memory.h"

namespace heddle::cuda {

namespace {
struct Block {
  std::byte* memory = nullptr;
  size_t bytes = 0;
  bool taken = false;
};
Block g_block;
}  // namespace

Scratch::Scratch(size_t bytes) {
  require(!g_block.taken, "an operation asked for scratch memory inside another one");
  if (bytes > g_block.bytes) {
    release_scratch();
    const size_t wanted = std::max<size_t>(bytes + bytes / 2, size_t{1} << 20);
    g_block.memory = static_cast<std::byte*>(device_malloc(wanted));
    g_block.bytes = wanted;
  }
  g_block.taken = true;
}

Scratch::~Scratch() {
  g_block.taken = false;
}

void* Scratch::take_bytes(size_t bytes) {
  const size_t rounded = (bytes + 255) / 256 * 256;
  require(used_ + rounded <= g_block.bytes, "an operation takes more scratch memory than it asked for");
  void* const at = g_block.memory + used_;
  used_ += rounded;
  return at;
}

// From memory that is not pinned the copy returns when the host's list is free again.
void Scratch::copy_list(void* to, const void* from, size_t bytes) {
  copy_to_device(to, from, bytes);
}

size_t scratch_bytes() {
  return g_block.bytes;
}

void release_scratch() {
  device_free(g_block.memory);
  g_block = {};
}

}  // namespace heddle::cuda
