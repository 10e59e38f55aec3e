// Running sums over a warp, a block, or a list that one block walks: where the things of each bin start.
#pragma once

#include <cstdint>

#include "cuda/reductions.cuh"

namespace heddle::cuda {

/// The sum of this lane's value and those of the lanes before it. All 32 lanes call together.
template <typename T>
__device__ __forceinline__ T warp_running_sum(T value) {
#pragma unroll
  for (int distance = 1; distance < kWarpSize; distance *= 2) {
    const T before = __shfl_up_sync(kFullWarp, value, distance);
    if (lane_index() >= distance) value += before;
  }
  return value;
}

template <typename T>
struct RunningSum {
  T before;  ///< of the threads before this one
  T total;   ///< of all threads
};

/// All threads of a one-dimensional block call together; each call holds two barriers.
template <typename T>
__device__ __forceinline__ RunningSum<T> block_running_sum(T value) {
  SHARED_ARRAY(T, sums_of_warps, kWarpSize);
  const T through_lane = warp_running_sum(value);
  __syncthreads();  // the sums of a call before this one may still be read
  if (lane_index() == kWarpSize - 1) sums_of_warps[warp_index()] = through_lane;
  __syncthreads();
  const T of_warp = lane_index() < warps_of_block() ? sums_of_warps[lane_index()] : T(0);
  const T through_warp = warp_running_sum(of_warp);
  const T before_warp = __shfl_sync(kFullWarp, through_warp - of_warp, warp_index());
  return {before_warp + through_lane - value, __shfl_sync(kFullWarp, through_warp, kWarpSize - 1)};
}

/// One block: sums[i] = value(0) + ... + value(i - 1) for i <= count. value(i) may read sums[i].
template <typename T, typename Value>
__device__ __forceinline__ void running_sums_of_list(int64_t count, T* sums, const Value& value) {
  T before = 0;
  for (int64_t first = 0; first < count; first += blockDim.x) {
    const int64_t i = first + threadIdx.x;
    const RunningSum<T> sum = block_running_sum(i < count ? static_cast<T>(value(i)) : T(0));
    if (i < count) sums[i] = before + sum.before;
    before += sum.total;
  }
  if (threadIdx.x == 0) sums[count] = before;
}

}  // namespace heddle::cuda
