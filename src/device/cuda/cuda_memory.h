// The GPU's memory, as an allocator wants it.
#pragma once

#include "tensor/memory.h"

namespace heddle {

/// Needs the context (cuda/context.h). Everything happens in the order of the compute stream.
class CudaMemory final : public Memory {
 public:
  void* take(int64_t bytes) override;
  void give(void* block, int64_t bytes) noexcept override;
  bool host_readable() const override { return false; }
  void copy_in(void* to, const void* host, size_t bytes) override;
  void copy_out(void* host, const void* from, size_t bytes) override;
  void copy_within(void* to, const void* from, size_t bytes) override;
  void clear(void* at, size_t bytes) override;
};

}  // namespace heddle
