// Memory of a device: where an allocator's blocks are, and how contents get there and back. Addresses of one memory are
// not readable for the host unless it says so.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heddle {

class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  virtual ~Memory() = default;

  /// A block of `bytes` > 0, aligned to 64 bytes; null where there is no more.
  virtual void* take(int64_t bytes) = 0;
  virtual void give(void* block, int64_t bytes) noexcept = 0;

  virtual bool host_readable() const = 0;
  /// Blocks come as zeros and take no room before they are written, so they are never kept for another use.
  virtual bool gives_zeros() const { return false; }

  /// Copies of `bytes` behind all work given to the device before. The host may reuse or read its side on return.
  virtual void copy_in(void* to, const void* host, size_t bytes) = 0;
  virtual void copy_out(void* host, const void* from, size_t bytes) = 0;
  virtual void copy_within(void* to, const void* from, size_t bytes) = 0;
  virtual void clear(void* at, size_t bytes) = 0;
};

/// The host's own memory.
Memory& host_memory();
/// Zero pages of the host that take no memory unless they are written: to run shapes without their contents.
Memory& untouched_memory();

}  // namespace heddle
