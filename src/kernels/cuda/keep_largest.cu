// Experts with a capacity keep the slots of largest weight. The slots are listed by expert, in their order; then a
// block per expert finds the weight of the last slot that fits, byte by byte of its sort key, from the counts of each
// byte among the slots that agree in the bytes before. Of the slots of just this weight the first ones fill what is
// left.
#include <algorithm>

#include "cuda/context.h"
#include "cuda/device.cuh"
#include "cuda/scratch.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/slot_order.h"

namespace heddle::cuda {

namespace {

constexpr int kThreads = 1024, kDigits = 256, kDigitBits = 8, kKeyBits = 32;

/// The key of the slot that is number `wanted` (from 1) by falling key; of the `equal` slots that have it, `wanted`
/// are.
struct Threshold {
  uint32_t key;
  int wanted, equal;
};

/// The digit of the slot that is wanted, by one warp that takes the digits from the largest on.
__device__ void find_digit(const int* slots_of_digit, int shift, const Threshold& found, Threshold& next) {
  constexpr int kOfLane = kDigits / kWarpSize;
  const int first = kDigits - 1 - lane_index() * kOfLane;
  int here = 0;
  for (int digit = first; digit > first - kOfLane; --digit) here += slots_of_digit[digit];
  int larger = warp_running_sum(here) - here;
  for (int digit = first; digit > first - kOfLane; --digit) {
    const int equal = slots_of_digit[digit];
    if (larger < found.wanted && found.wanted <= larger + equal)
      next = {found.key | static_cast<uint32_t>(digit) << shift, found.wanted - larger, equal};
    larger += equal;
  }
}

/// All threads of the block call together. 0 < wanted <= count.
__device__ Threshold find_threshold(int count, const int64_t* __restrict__ slots, const float* __restrict__ weights,
                                    int wanted) {
  SHARED_ARRAY(int, slots_of_digit, kDigits);
  SHARED_VAR(Threshold, next);
  Threshold found = {0, wanted, count};
  for (int shift = kKeyBits - kDigitBits; shift >= 0; shift -= kDigitBits) {
    if (threadIdx.x < kDigits) slots_of_digit[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += kThreads) {
      const uint32_t key = sort_key(weights[slots[i]]);
      const bool agrees = (uint64_t{key} >> (shift + kDigitBits)) == (uint64_t{found.key} >> (shift + kDigitBits));
      if (agrees) atomicAdd(&slots_of_digit[(key >> shift) % kDigits], 1);
    }
    __syncthreads();
    if (warp_index() == 0) find_digit(slots_of_digit, shift, found, next);
    __syncthreads();
    found = next;
  }
  return found;
}

__global__ void __launch_bounds__(kThreads)
    keep_kernel(int64_t capacity, const int64_t* __restrict__ ordered, const int32_t* __restrict__ expert_begin,
                const float* __restrict__ weights, uint8_t* __restrict__ keep) {
  const int64_t* const slots = ordered + expert_begin[blockIdx.x];
  const int count = expert_begin[blockIdx.x + 1] - expert_begin[blockIdx.x];
  if (count <= capacity || capacity == 0) {
    for (int i = threadIdx.x; i < count; i += kThreads) keep[slots[i]] = capacity != 0;
    return;
  }
  const Threshold threshold = find_threshold(count, slots, weights, static_cast<int>(capacity));
  int equal_before = 0;
  for (int first = 0; first < count; first += kThreads) {
    const int i = first + static_cast<int>(threadIdx.x);
    const uint32_t key = i < count ? sort_key(weights[slots[i]]) : 0;
    bool fits = key == threshold.key;
    if (threshold.wanted < threshold.equal) {
      const RunningSum<int> equal = block_running_sum(fits ? 1 : 0);
      fits = fits && equal_before + equal.before < threshold.wanted;
      equal_before += equal.total;
    }
    if (i < count) keep[slots[i]] = key > threshold.key || fits;
  }
}

}  // namespace

void keep_largest(int64_t tokens, int64_t choices, int64_t experts, int64_t capacity, const int32_t* index,
                  const float* weights, uint8_t* keep) {
  const int64_t slots = tokens * choices;
  if (slots == 0) return;
  const RouteShape shape = {tokens, choices, experts, 1};
  Scratch scratch(slot_order_bytes(shape) + Scratch::bytes_of<int64_t>(slots));
  int64_t* const ordered = scratch.take<int64_t>(slots);
  const int32_t* const expert_begin = order_slots(shape, index, scratch, ordered);
  launch(keep_kernel, {block_count(experts, 1), kThreads}, context().compute_stream(), std::max<int64_t>(capacity, 0),
         ordered, expert_begin, weights, keep);
}

}  // namespace heddle::cuda
