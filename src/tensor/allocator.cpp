#include "tensor/allocator.h"

#include <bit>
#include <cstdlib>

#include "support/error.h"

namespace heddle {

const char* purpose_name(Purpose purpose) {
  constexpr std::array<const char*, kPurposes> kNames = {"weights",     "gradients", "optimizer",
                                                         "activations", "exchange",  "workspace"};
  return kNames[static_cast<size_t>(purpose)];
}

Allocator& Allocator::host() {
  // Never destroyed: tensors in static objects may be freed after any destructor order we could choose.
  static Allocator* const allocator = new Allocator();
  return *allocator;
}

// Eight classes per power of two: at most 1/8 is wasted, and sizes that differ a little (received rows) share blocks.
int64_t Allocator::size_class(int64_t bytes) {
  if (bytes <= 64) return 64;
  const int shift = std::max(6, static_cast<int>(std::bit_width(static_cast<uint64_t>(bytes - 1))) - 4);
  const int64_t step = int64_t{1} << shift;
  return (bytes + step - 1) / step * step;
}

void* Allocator::allocate(int64_t bytes, Purpose purpose) {
  require(bytes >= 0, "allocation of {} bytes", bytes);
  const int64_t size = size_class(bytes);
  const std::lock_guard lock(mutex_);
  void* block = nullptr;
  if (auto found = cache_.find(size); found != cache_.end() && !found->second.empty()) {
    block = found->second.back();
    found->second.pop_back();
  } else {
    block = std::aligned_alloc(64, static_cast<size_t>(size));
    if (block == nullptr)
      throw Error(
          fmt::format("out of memory: {} bytes for {} ({} bytes in use)", size, purpose_name(purpose), use_.total),
          "use fewer rows per micro-batch (train.micro_batch) or shorter segments (train.segment_loops)");
    use_.reserved += size;
    ++use_.system_requests;
  }
  const auto p = static_cast<size_t>(purpose);
  use_.current[p] += size;
  use_.total += size;
  use_.peak[p] = std::max(use_.peak[p], use_.current[p]);
  use_.total_peak = std::max(use_.total_peak, use_.total);
  return block;
}

void Allocator::release(void* block, int64_t bytes, Purpose purpose) noexcept {
  const int64_t size = size_class(bytes);
  const std::lock_guard lock(mutex_);
  use_.current[static_cast<size_t>(purpose)] -= size;
  use_.total -= size;
  cache_[size].push_back(block);
}

MemoryUse Allocator::use() const {
  const std::lock_guard lock(mutex_);
  return use_;
}

void Allocator::reset_peaks() {
  const std::lock_guard lock(mutex_);
  use_.peak = use_.current;
  use_.total_peak = use_.total;
}

void Allocator::release_cache() {
  const std::lock_guard lock(mutex_);
  for (auto& [size, blocks] : cache_) {
    for (void* block : blocks) std::free(block);
    use_.reserved -= size * static_cast<int64_t>(blocks.size());
  }
  cache_.clear();
}

}  // namespace heddle
