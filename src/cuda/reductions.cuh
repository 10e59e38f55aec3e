// Sums and maxima over a warp or a block. The order of additions is fixed, so the bits are the same in every run; every
// thread gets the result.
#pragma once

#include <cuda_runtime.h>

#include "cuda/shared_memory.cuh"

namespace heddle::cuda {

constexpr int kWarpSize = 32;
constexpr unsigned kFullWarp = 0xffffffffu;

__device__ __forceinline__ int lane_index() {
  return static_cast<int>(threadIdx.x) % kWarpSize;
}
__device__ __forceinline__ int warp_index() {
  return static_cast<int>(threadIdx.x) / kWarpSize;
}
__device__ __forceinline__ int warps_of_block() {
  return static_cast<int>(blockDim.x) / kWarpSize;
}

/// T: float, double, int, unsigned or 64-bit integers. All 32 lanes call together.
template <typename T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(kFullWarp, value, distance);
  return value;
}

template <typename T>
__device__ __forceinline__ T warp_max(T value) {
#pragma unroll
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
    const T other = __shfl_xor_sync(kFullWarp, value, distance);
    value = value < other ? other : value;
  }
  return value;
}

/// All threads of a one-dimensional block call together; each call holds two barriers.
template <typename T>
__device__ __forceinline__ T block_sum(T value) {
  SHARED_ARRAY(T, sums_of_warps, kWarpSize);
  value = warp_sum(value);
  __syncthreads();  // the sums of a call before this one may still be read
  if (lane_index() == 0) sums_of_warps[warp_index()] = value;
  __syncthreads();
  return warp_sum(lane_index() < warps_of_block() ? sums_of_warps[lane_index()] : T(0));
}

template <typename T>
__device__ __forceinline__ T block_max(T value) {
  SHARED_ARRAY(T, maxima_of_warps, kWarpSize);
  value = warp_max(value);
  __syncthreads();
  if (lane_index() == 0) maxima_of_warps[warp_index()] = value;
  __syncthreads();
  return warp_max(lane_index() < warps_of_block() ? maxima_of_warps[lane_index()] : maxima_of_warps[0]);
}

}  // namespace heddle::cuda
