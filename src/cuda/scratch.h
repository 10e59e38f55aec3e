// Device memory for the inside of one operation: partial sums, lists that a kernel reads. Work on the compute stream is
// in order, so the next operation may use the same memory again without waiting.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heddle::cuda {

/// While it lives, the scratch memory of the context is this operation's. One at a time.
class Scratch {
 public:
  /// Makes sure of `bytes` (for take: rounded up to 256 each). Growing waits for the device.
  explicit Scratch(size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// Uninitialised room for `count` elements, aligned to 256 bytes.
  template <typename T>
  T* take(int64_t count) {
    return static_cast<T*>(take_bytes(static_cast<size_t>(count) * sizeof(T)));
  }
  /// A copy of a list on the host, which may be changed as soon as this returns.
  template <typename T>
  const T* upload(const T* list, int64_t count) {
    T* const there = take<T>(count);
    copy_list(there, list, static_cast<size_t>(count) * sizeof(T));
    return there;
  }
  /// Bytes to ask for, for take<T>(count).
  template <typename T>
  static size_t bytes_of(int64_t count) {
    return (static_cast<size_t>(count) * sizeof(T) + 255) / 256 * 256;
  }

 private:
  void* take_bytes(size_t bytes);
  static void copy_list(void* to, const void* from, size_t bytes);
  size_t used_ = 0;
};

/// Bytes that the context holds for scratch.
size_t scratch_bytes();
/// Gives them back; called before the context goes.
void release_scratch();

}  // namespace heddle::cuda
