// Moves of rows between token order and expert order. A warp takes a row, a pack of 16 bytes a lane; every byte is read
// and written once.
#include "cuda/context.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/stored.h"
#include "kernels/cuda/vectors.cuh"

namespace heddle::cuda {

namespace {

__device__ int64_t row_of_warp() {
  return int64_t{blockIdx.x} * kWarps + warp_index();
}

template <typename T>
__global__ void __launch_bounds__(kThreads) gather_kernel(int64_t count, int64_t width, const int64_t* __restrict__ row,
                                                          const T* __restrict__ x, T* __restrict__ y) {
  constexpr int kPack = kPackSize<T>, kStep = kWarpSize * kPack;
  constexpr int kPacks = 4;  // that are under way at once
  const int64_t r = row_of_warp();
  if (r >= count) return;
  const T* const from = x + row[r] * width;
  T* const to = y + r * width;
  for (int64_t d = lane_index() * kPack; d < width; d += kPacks * kStep) {
    Elements<kPack, T> packs[kPacks];
#pragma unroll
    for (int p = 0; p < kPacks; ++p) packs[p] = load<kPack>(from, d + p * kStep, width);
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      float values[kPack];
#pragma unroll
      for (int i = 0; i < kPack; ++i) values[i] = packs[p][i];
      store(to, d + p * kStep, width, values);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    sum_slots_kernel(int64_t rows, int64_t width, const int64_t* __restrict__ row_begin,
                     const int64_t* __restrict__ slot, const float* __restrict__ weight, const T* __restrict__ y,
                     bool accumulate, T* __restrict__ out) {
  constexpr int kPack = kPackSize<T>;
  const int64_t r = row_of_warp();
  if (r >= rows) return;
  T* const to = out + r * width;
  const int64_t begin = row_begin[r], end = row_begin[r + 1];
  for (int64_t d = lane_index() * kPack; d < width; d += kWarpSize * kPack) {
    const Elements<kPack, T> old = load<kPack>(accumulate ? to : nullptr, d, width);
    float sums[kPack];
#pragma unroll
    for (int i = 0; i < kPack; ++i) sums[i] = old[i];
#pragma unroll 4
    for (int64_t e = begin; e < end; ++e) {
      const int64_t s = slot[e];
      const float w = weight == nullptr ? 1.0f : weight[s];
      const Elements<kPack, T> values = load<kPack>(y + s * width, d, width);
#pragma unroll
      for (int i = 0; i < kPack; ++i) sums[i] += w * values[i];
    }
    store(to, d, width, sums);
  }
}

/// y and dy may be the same: a lane writes what it has read.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    sum_slots_backward_kernel(int64_t count, int64_t width, const int64_t* __restrict__ row,
                              const float* __restrict__ weight, const T* y, const T* __restrict__ dout, T* dy,
                              float* __restrict__ dweight) {
  constexpr int kPack = kPackSize<T>, kStep = kWarpSize * kPack;
  constexpr int kPacks = 2;  // of each vector that are under way at once
  const int64_t s = row_of_warp();
  if (s >= count) return;
  const T* const gradient = dout + row[s] * width;
  const float w = weight[s];
  float dot = 0;
  for (int64_t d = lane_index() * kPack; d < width; d += kPacks * kStep) {
    Elements<kPack, T> values[kPacks], gradients[kPacks];
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      values[p] = load<kPack>(y + s * width, d + p * kStep, width);
      gradients[p] = load<kPack>(gradient, d + p * kStep, width);
    }
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      float out[kPack];
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        dot += gradients[p][i] * values[p][i];
        out[i] = w * gradients[p][i];
      }
      store(dy + s * width, d + p * kStep, width, out);
    }
  }
  dot = warp_sum(dot);
  if (lane_index() == 0) dweight[s] = dot;
}

__global__ void __launch_bounds__(kThreads) scatter_kernel(int64_t count, const int64_t* __restrict__ place,
                                                           const float* __restrict__ x, float* __restrict__ y) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < count) y[place[i]] = x[i];
}

}  // namespace

void gather_rows(int64_t count, int64_t width, const int64_t* row, ConstReals x, Reals y) {
  if (count == 0) return;
  with_stored(common_type({x, y}), [&](auto element) {
    using T = decltype(element);
    launch(gather_kernel<T>, {block_count(count, kWarps), kThreads}, context().compute_stream(), count, width, row,
           stored<T>(x), stored<T>(y));
  });
}

void sum_slots(int64_t rows, int64_t width, const int64_t* row_begin, const int64_t* slot, const float* weight,
               ConstReals y, bool accumulate, Reals out) {
  if (rows == 0) return;
  with_stored(common_type({y, out}), [&](auto element) {
    using T = decltype(element);
    launch(sum_slots_kernel<T>, {block_count(rows, kWarps), kThreads}, context().compute_stream(), rows, width,
           row_begin, slot, weight, stored<T>(y), accumulate, stored<T>(out));
  });
}

void sum_slots_backward(int64_t count, int64_t width, const int64_t* row, const float* weight, ConstReals y,
                        ConstReals dout, Reals dy, float* dweight) {
  if (count == 0) return;
  with_stored(common_type({y, dout, dy}), [&](auto element) {
    using T = decltype(element);
    launch(sum_slots_backward_kernel<T>, {block_count(count, kWarps), kThreads}, context().compute_stream(), count,
           width, row, weight, stored<T>(y), stored<T>(dout), stored<T>(dy), dweight);
  });
}

void scatter(int64_t count, const int64_t* place, const float* x, float* y) {
  if (count == 0) return;
  launch(scatter_kernel, {block_count(count, kThreads), kThreads}, context().compute_stream(), count, place, x, y);
}

}  // namespace heddle::cuda
