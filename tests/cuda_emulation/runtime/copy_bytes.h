// memcpy that the sanitizers do not see: a plain loop, in a library that is compiled with
// -fno-tree-loop-distribute-patterns so that it stays one. For the runtime's own buffers only.
#pragma once

#include <cstddef>

namespace cuda_emulation {

inline void copy_bytes(void* to, const void* from, size_t bytes) {
  auto* const target = static_cast<unsigned char*>(to);
  const auto* const source = static_cast<const unsigned char*>(from);
  for (size_t i = 0; i < bytes; ++i) target[i] = source[i];
}

}  // namespace cuda_emulation
