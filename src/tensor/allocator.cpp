#include "tensor/allocator.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <iterator>

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

namespace {
std::atomic<Allocator*> g_current{nullptr};
}

Allocator& Allocator::current() {
  Allocator* const scoped = g_current.load(std::memory_order_relaxed);
  return scoped == nullptr ? host() : *scoped;
}

ScopedAllocator::ScopedAllocator(Allocator& allocator) : before_(g_current.exchange(&allocator)) {}
ScopedAllocator::~ScopedAllocator() {
  g_current.store(before_);
}

// Eight classes per power of two: at most 1/8 is wasted, and sizes that differ a little share blocks. What lives as
// long as the run does is large and never shared: that is taken as it is.
int64_t Allocator::size_class(int64_t bytes, Purpose purpose) {
  if (bytes <= 64) return 64;
  if (purpose == Purpose::kWeights || purpose == Purpose::kGradients || purpose == Purpose::kOptimizer)
    return (bytes + 63) / 64 * 64;
  const int shift = std::max(6, static_cast<int>(std::bit_width(static_cast<uint64_t>(bytes - 1))) - 4);
  const int64_t step = int64_t{1} << shift;
  return (bytes + step - 1) / step * step;
}

int64_t Allocator::block_size(int64_t bytes, Purpose purpose) const {
  return keep_blocks_ || memory_.gives_zeros() ? size_class(bytes, purpose) : std::max<int64_t>(bytes, 1);
}

void Allocator::free_block(void* block, int64_t size) {
  use_.reserved -= size;
  memory_.give(block, size);
}

// The smallest kept block that holds `size` and is at most half as large again.
void* Allocator::from_cache(int64_t size) {
  const auto found = cache_.lower_bound(size);
  if (found == cache_.end() || found->first > size + size / 2) return nullptr;
  void* const block = found->second.back().block;
  if (found->first != size) held_size_[block] = found->first;
  found->second.pop_back();
  if (found->second.empty()) cache_.erase(found);
  return block;
}

void* Allocator::from_system(int64_t size, Purpose purpose) {
  const int64_t limit = 2 * std::max(largest_total_, use_.total + size);
  if (use_.reserved + size > limit) shrink_to(limit - size);
  void* block = memory_.take(size);
  if (block == nullptr) {
    shrink_to(0);
    block = memory_.take(size);
  }
  if (block == nullptr)
    throw OutOfMemory(
        fmt::format("out of memory: {} bytes for {} ({} bytes in use)", size, purpose_name(purpose), use_.total),
        purpose == Purpose::kWeights || purpose == Purpose::kGradients || purpose == Purpose::kOptimizer
            ? "take a smaller model, or split experts (layout.expert_parallel) and state (layout.zero) over more ranks"
            : "use fewer rows per micro-batch (train.micro_batch) or shorter segments (backprop.loops)");
  use_.reserved += size;
  ++use_.system_requests;
  return block;
}

void Allocator::shrink_to(int64_t bytes) {
  while (use_.reserved > bytes && !cache_.empty()) {
    const auto largest = std::prev(cache_.end());
    free_block(largest->second.back().block, largest->first);
    largest->second.pop_back();
    if (largest->second.empty()) cache_.erase(largest);
  }
}

void* Allocator::allocate(int64_t bytes, Purpose purpose) {
  require(bytes >= 0, "allocation of {} bytes", bytes);
  const int64_t size = block_size(bytes, purpose);
  const std::lock_guard lock(mutex_);
  void* block = from_cache(size);
  if (block == nullptr) block = from_system(size, purpose);
  const auto p = static_cast<size_t>(purpose);
  use_.current[p] += size;
  use_.total += size;
  use_.peak[p] = std::max(use_.peak[p], use_.current[p]);
  use_.total_peak = std::max(use_.total_peak, use_.total);
  largest_total_ = std::max(largest_total_, use_.total);
  return block;
}

void Allocator::release(void* block, int64_t bytes, Purpose purpose) noexcept {
  const int64_t size = block_size(bytes, purpose);
  const std::lock_guard lock(mutex_);
  use_.current[static_cast<size_t>(purpose)] -= size;
  use_.total -= size;
  int64_t held = size;
  if (const auto larger = held_size_.find(block); larger != held_size_.end()) {
    held = larger->second;
    held_size_.erase(larger);
  }
  // Blocks of a memory that gives zeros must be zeros when they are handed out again.
  if (!keep_blocks_)
    free_block(block, held);
  else
    cache_[held].push_back({block, step_});
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

void Allocator::end_step() {
  const std::lock_guard lock(mutex_);
  ++step_;
  for (auto list = cache_.begin(); list != cache_.end();) {
    std::vector<Kept>& kept = list->second;
    const auto fresh =
        std::find_if(kept.begin(), kept.end(), [this](const Kept& k) { return k.step + kIdleSteps > step_; });
    for (auto k = kept.begin(); k != fresh; ++k) free_block(k->block, list->first);
    kept.erase(kept.begin(), fresh);
    list = kept.empty() ? cache_.erase(list) : std::next(list);
  }
}

void Allocator::release_cache() {
  const std::lock_guard lock(mutex_);
  shrink_to(0);
}

}  // namespace heddle
