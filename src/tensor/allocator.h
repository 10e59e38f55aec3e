// Memory of tensors, accounted by purpose, so that a run can say what its bytes are for and where its peak was.
// Freed blocks are kept and handed out again, also for somewhat smaller requests: after warm-up a training step asks
// the system for nothing. What no step needs any more is given back, and what is kept is bounded by the peak in use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "support/error.h"
#include "tensor/memory.h"

namespace heddle {

enum class Purpose : int { kWeights, kGradients, kOptimizer, kActivations, kExchange, kWorkspace };
inline constexpr int kPurposes = 6;
const char* purpose_name(Purpose purpose);

/// The memory of tensors is used up, whatever the allocator gives back.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

struct MemoryUse {
  std::array<int64_t, kPurposes> current{};  ///< bytes in live tensors
  std::array<int64_t, kPurposes> peak{};     ///< largest `current` of each purpose since the last reset
  int64_t total = 0, total_peak = 0;         ///< the peak of the sum is not the sum of the peaks
  int64_t reserved = 0;                      ///< bytes held from the system, cached ones included
  int64_t system_requests = 0;               ///< how often the system was asked
};

/// Thread-safe. Blocks are aligned to 64 bytes and not cleared. A freed block is handed out again at once: work on a
/// device is one stream, which reaches the new owner after the old one.
class Allocator {
 public:
  static constexpr int64_t kIdleSteps = 8;

  /// keep_blocks false: every request is a block of its exact size, given back at once.
  explicit Allocator(Memory& memory = host_memory(), bool keep_blocks = true)
      : memory_(memory), keep_blocks_(keep_blocks && !memory.gives_zeros()) {}
  ~Allocator() { release_cache(); }
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  static Allocator& host();
  /// Where new tensors get their memory: the host's, unless a ScopedAllocator stands.
  static Allocator& current();

  void* allocate(int64_t bytes, Purpose purpose);
  void release(void* block, int64_t bytes, Purpose purpose) noexcept;
  Memory& memory() const { return memory_; }

  MemoryUse use() const;
  void reset_peaks();
  void end_step();       ///< call once per training step: blocks that lay idle for kIdleSteps of them go back
  void release_cache();  ///< gives all kept blocks back to the system

 private:
  struct Kept {
    void* block;
    int64_t step;  ///< in which it was released
  };

  int64_t block_size(int64_t bytes, Purpose purpose) const;
  static int64_t size_class(int64_t bytes, Purpose purpose);
  void* from_cache(int64_t size);
  void* from_system(int64_t size, Purpose purpose);
  void free_block(void* block, int64_t size);
  /// Gives kept blocks back, largest first, until at most `bytes` are held or none is left.
  void shrink_to(int64_t bytes);

  Memory& memory_;
  const bool keep_blocks_;
  mutable std::mutex mutex_;
  MemoryUse use_;
  int64_t step_ = 0;
  int64_t largest_total_ = 0;                     ///< of all time
  std::map<int64_t, std::vector<Kept>> cache_;    ///< by size, no empty lists, latest released last
  std::unordered_map<void*, int64_t> held_size_;  ///< of live blocks that are larger than their request's class
};

/// While it lives, new tensors get their memory from the given allocator; those that exist keep theirs. One at a time.
class ScopedAllocator {
 public:
  explicit ScopedAllocator(Allocator& allocator);
  ~ScopedAllocator();
  ScopedAllocator(const ScopedAllocator&) = delete;
  ScopedAllocator& operator=(const ScopedAllocator&) = delete;

 private:
  Allocator* before_;
};

}  // namespace heddle
