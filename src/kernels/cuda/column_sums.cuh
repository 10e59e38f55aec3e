// Sums over the rows of a matrix, a sum (or several) for every column, in an order that only the shape decides. Rows
// are cut into parts; a block adds up the rows of a part for a strip of columns, in float, and leaves a partial sum; a
// last kernel adds the parts in double.
#pragma once

#include <algorithm>

#include "cuda/context.h"
#include "kernels/cuda/vectors.cuh"

namespace heddle::cuda {

/// Rows [i * rows, (i + 1) * rows) are part i < count.
struct RowParts {
  int64_t count;
  int64_t rows;
};

/// About `wanted` parts, of at least `least` rows.
inline RowParts cut_rows(int64_t rows, int64_t wanted, int64_t least) {
  const int64_t of_part = std::max((rows + wanted - 1) / wanted, least);
  return {(rows + of_part - 1) / of_part, of_part};
}

/// Parts for kernels whose blocks take one strip of columns each, a pack for every lane: some 8 blocks for each
/// multiprocessor of a large GPU, and at least 4 rows for every warp.
template <int kPack>
RowParts cut_rows_for_strips(int64_t rows, int64_t width) {
  return cut_rows(rows, std::max<int64_t>(1056 / block_count(width, kWarpSize * kPack), 1), 4 * kWarps);
}

/// Adds up what the block's warps hold, in the order of the warps. sums: of this lane's pack of columns, which starts
/// at lane * kPack of the strip. partials [part, kSums, width], the strip starts at column `first`.
template <typename Number, int kSums, int kPack>
__device__ __forceinline__ void store_partial_sums(const Number (&sums)[kSums][kPack], int64_t part, int64_t first,
                                                   int64_t width, Number* partials) {
  constexpr int kStrip = kWarpSize * kPack;
  SHARED_ARRAY(Number, of_warps, kWarps * kSums * kStrip);
#pragma unroll
  for (int s = 0; s < kSums; ++s)
#pragma unroll
    for (int i = 0; i < kPack; ++i)
      of_warps[(warp_index() * kSums + s) * kStrip + lane_index() * kPack + i] = sums[s][i];
  __syncthreads();
  for (int at = static_cast<int>(threadIdx.x); at < kSums * kStrip; at += kThreads) {
    Number sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += of_warps[w * kSums * kStrip + at];
    const int64_t column = first + at % kStrip;
    if (column < width) partials[(part * kSums + at / kStrip) * width + column] = sum;
  }
}

constexpr int kFinishWarps = 16;

/// Calls finish(column, totals) for every column: the sums of the parts.
template <int kSums, typename Number, typename Finish>
__global__ void __launch_bounds__(kFinishWarps* kWarpSize)
    finish_columns_kernel(int64_t parts, int64_t width, const Number* __restrict__ partials, Finish finish) {
  SHARED_ARRAY(double, of_warps, kFinishWarps* kSums* kWarpSize);
  const int64_t column = int64_t{blockIdx.x} * kWarpSize + lane_index();
  double totals[kSums] = {};
  if (column < width) {
#pragma unroll 4
    for (int64_t part = warp_index(); part < parts; part += kFinishWarps)
#pragma unroll
      for (int s = 0; s < kSums; ++s) totals[s] += static_cast<double>(partials[(part * kSums + s) * width + column]);
  }
#pragma unroll
  for (int s = 0; s < kSums; ++s) of_warps[(warp_index() * kSums + s) * kWarpSize + lane_index()] = totals[s];
  __syncthreads();
  if (warp_index() != 0 || column >= width) return;
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
    totals[s] = 0;
    for (int w = 0; w < kFinishWarps; ++w) totals[s] += of_warps[(w * kSums + s) * kWarpSize + lane_index()];
  }
  finish(column, totals);
}

/// Finishes with partials [parts, kSums, width]; no parts give totals of 0.
template <int kSums, typename Number, typename Finish>
void finish_columns(int64_t parts, int64_t width, const Number* partials, const Finish& finish) {
  if (width == 0) return;
  launch(finish_columns_kernel<kSums, Number, Finish>, {block_count(width, kWarpSize), kFinishWarps * kWarpSize},
         context().compute_stream(), parts, width, partials, finish);
}

/// A total that goes to a gradient of float32.
struct StoreTotal {
  float* to;
  bool accumulate;
  __device__ void operator()(int64_t column, const double (&totals)[1]) const {
    to[column] = static_cast<float>(accumulate ? static_cast<double>(to[column]) + totals[0] : totals[0]);
  }
};

}  // namespace heddle::cuda
