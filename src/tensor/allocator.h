// Memory of tensors, accounted by purpose, so that a run can say what its bytes are for and where its peak was.
// Freed blocks are kept and handed out again, also for somewhat smaller requests: after warm-up a training step asks
// the system for next to nothing. What is kept is bounded by the peak in use, since received rows differ in every step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace heddle {

enum class Purpose : int { kWeights, kGradients, kOptimizer, kActivations, kExchange, kWorkspace };
inline constexpr int kPurposes = 6;
const char* purpose_name(Purpose purpose);

struct MemoryUse {
  std::array<int64_t, kPurposes> current{};  ///< bytes in live tensors
  std::array<int64_t, kPurposes> peak{};     ///< largest `current` of each purpose since the last reset
  int64_t total = 0, total_peak = 0;         ///< the peak of the sum is not the sum of the peaks
  int64_t reserved = 0;                      ///< bytes held from the system, cached ones included
  int64_t system_requests = 0;               ///< how often the system was asked
};

/// Thread-safe. Blocks are aligned to 64 bytes and not cleared.
class Allocator {
 public:
  static Allocator& host();

  void* allocate(int64_t bytes, Purpose purpose);
  void release(void* block, int64_t bytes, Purpose purpose) noexcept;

  MemoryUse use() const;
  void reset_peaks();
  void release_cache();  ///< gives cached blocks back to the system

 private:
  static int64_t size_class(int64_t bytes);
  void* from_cache(int64_t size);
  void* from_system(int64_t size, Purpose purpose);
  /// Gives cached blocks back, largest first, until at most `bytes` are held or none is left.
  void shrink_to(int64_t bytes);

  mutable std::mutex mutex_;
  MemoryUse use_;
  int64_t largest_total_ = 0;                     ///< of all time
  std::map<int64_t, std::vector<void*>> cache_;   ///< by size, no empty lists
  std::unordered_map<void*, int64_t> held_size_;  ///< of live blocks that are larger than their request's class
};

}  // namespace heddle
