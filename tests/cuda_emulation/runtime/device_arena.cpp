#include "runtime/device_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <map>

#include "runtime/failure.h"

namespace cuda_emulation {

namespace {

constexpr size_t kGrowth = size_t{2} << 20;  ///< accessible memory grows by large pages

size_t round_up(size_t bytes, size_t step) {
  return (bytes + step - 1) / step * step;
}

}  // namespace

/// offset -> bytes of what is free below used_up_to_; neighbours are joined.
struct DeviceArena::FreeRanges : std::map<size_t, size_t> {};

DeviceArena::DeviceArena(size_t bytes) : bytes_(round_up(bytes, kGrowth)), free_(new FreeRanges) {
  void* memory = mmap(nullptr, bytes_ + kGrowth, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) fail("no address space for %zu bytes of device memory", bytes_);
  start_ = reinterpret_cast<unsigned char*>(round_up(reinterpret_cast<uintptr_t>(memory), kGrowth));
  // Protecting a few large pages takes microseconds, thousands of small ones milliseconds. Where there are none, it
  // works.
  madvise(start_, bytes_, MADV_HUGEPAGE);
  (*free_)[0] = bytes_;
}

unsigned char* DeviceArena::take(size_t bytes) {
  const auto fits = [bytes](const auto& range) { return range.second >= bytes; };
  auto range = std::find_if(free_->lower_bound(next_), free_->end(), fits);
  if (range == free_->end()) range = std::find_if(free_->begin(), free_->end(), fits);
  if (range == free_->end()) return nullptr;
  const size_t offset = range->first, rest = range->second - bytes;
  free_->erase(range);
  if (rest > 0) (*free_)[offset + bytes] = rest;
  next_ = offset + bytes;
  if (offset + bytes > used_up_to_) {
    used_up_to_ = round_up(offset + bytes, kGrowth);
    protect();
  }
  return start_ + offset;
}

void DeviceArena::give_back(unsigned char* memory, size_t bytes) {
  const auto offset = static_cast<size_t>(memory - start_);
  auto range = free_->emplace(offset, bytes).first;
  if (const auto next = std::next(range); next != free_->end() && offset + bytes == next->first) {
    range->second += next->second;
    free_->erase(next);
  }
  if (range == free_->begin()) return;
  if (const auto previous = std::prev(range); previous->first + previous->second == offset) {
    previous->second += range->second;
    free_->erase(range);
  }
}

bool DeviceArena::contains(const void* memory) const {
  return memory >= start_ && memory < start_ + bytes_;
}

void DeviceArena::set_accessible(bool accessible) {
  if (accessible == accessible_) return;
  accessible_ = accessible;
  if (used_up_to_ > 0) protect();
}

void DeviceArena::protect() {
  if (mprotect(start_, used_up_to_, accessible_ ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
    fail("the protection of device memory could not be changed");
}

}  // namespace cuda_emulation
