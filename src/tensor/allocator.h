// Memory of tensors, accounted by purpose, so that a run can say what its bytes are for and where its peak was.
// Freed blocks are kept by size class and handed out again: after warm-up a training step asks the system for nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
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
  mutable std::mutex mutex_;
  MemoryUse use_;
  std::map<int64_t, std::vector<void*>> cache_;
};

}  // namespace heddle
