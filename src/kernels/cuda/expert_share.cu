// Shares of the scores that experts get. A block sums a stretch of rows for all experts; a second kernel adds the
// blocks' sums. Both orders depend on the sizes alone.
#include <algorithm>

#include "cuda/context.h"
#include "cuda/device.cuh"
#include "cuda/scratch.h"
#include "kernels/cuda/operations.h"

namespace heddle::cuda {

namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarpSize;
constexpr int kFewestRows = 32, kMostRows = 1024;  // of a block
constexpr int64_t kBlocks = 512;                   // wanted
constexpr float kSmallestSum = 1e-9f;

__device__ float row_sum(int64_t experts, const float* row) {
  float sum = 0;
  for (int64_t e = lane_index(); e < experts; e += kWarpSize) sum += row[e];
  return warp_sum(sum);
}

/// A NaN stays one.
__device__ float bounded(float sum) {
  return sum < kSmallestSum ? kSmallestSum : sum;
}

/// partial[block, e]: the share of expert e in the rows of the block.
__global__ void __launch_bounds__(kThreads)
    partial_share_kernel(int64_t rows, int64_t experts, int rows_per_block, const float* __restrict__ scores,
                         double* __restrict__ partial) {
  SHARED_ARRAY(double, inverse, kMostRows);  // 1 / sum of each row
  const int64_t first = int64_t{blockIdx.x} * rows_per_block;
  const int here = static_cast<int>(min(int64_t{rows_per_block}, rows - first));
  for (int r = warp_index(); r < here; r += kWarps) {
    const float sum = row_sum(experts, scores + (first + r) * experts);
    if (lane_index() == 0) inverse[r] = 1 / static_cast<double>(bounded(sum));
  }
  __syncthreads();
  for (int64_t e = threadIdx.x; e < experts; e += kThreads) {
    double sum = 0;
    for (int r = 0; r < here; ++r) sum += inverse[r] * static_cast<double>(scores[(first + r) * experts + e]);
    partial[blockIdx.x * experts + e] = sum;
  }
}

/// A block takes 32 experts; each of its warps sums every 8th partial sum.
__global__ void __launch_bounds__(kThreads)
    add_partials_kernel(int64_t partials, int64_t experts, const double* __restrict__ partial,
                        float* __restrict__ share) {
  SHARED_ARRAY(double, sums, kThreads);
  const int64_t e = int64_t{blockIdx.x} * kWarpSize + lane_index();
  double sum = 0;
  for (int64_t p = warp_index(); e < experts && p < partials; p += kWarps) sum += partial[p * experts + e];
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (warp_index() != 0 || e >= experts) return;
  for (int warp = 1; warp < kWarps; ++warp) sum += sums[warp * kWarpSize + lane_index()];
  share[e] = static_cast<float>(sum);
}

__global__ void __launch_bounds__(kThreads)
    backward_kernel(int64_t rows, int64_t experts, const float* __restrict__ scores, const float* __restrict__ dshare,
                    float* __restrict__ dscores, bool accumulate) {
  const int64_t r = int64_t{blockIdx.x} * kWarps + warp_index();
  if (r >= rows) return;
  const float* const row = scores + r * experts;
  float sum = 0, dot = 0;
  for (int64_t e = lane_index(); e < experts; e += kWarpSize) {
    sum += row[e];
    dot += dshare[e] * row[e];
  }
  sum = warp_sum(sum);
  dot = warp_sum(dot);
  const float divisor = bounded(sum), pull = sum < kSmallestSum ? 0.0f : dot / divisor;
  for (int64_t e = lane_index(); e < experts; e += kWarpSize) {
    float& out = dscores[r * experts + e];
    const float gradient = (dshare[e] - pull) / divisor;
    out = accumulate ? out + gradient : gradient;
  }
}

}  // namespace

void expert_share_forward(int64_t rows, int64_t experts, const float* scores, float* share) {
  if (experts == 0) return;
  const cudaStream_t stream = context().compute_stream();
  const int64_t rows_per_block = std::clamp((rows + kBlocks - 1) / kBlocks, int64_t{kFewestRows}, int64_t{kMostRows});
  const unsigned blocks = block_count(rows, rows_per_block);
  Scratch scratch(Scratch::bytes_of<double>(blocks * experts));
  double* const partial = scratch.take<double>(blocks * experts);
  if (blocks > 0)
    launch(partial_share_kernel, {blocks, kThreads}, stream, rows, experts, rows_per_block, scores, partial);
  launch(add_partials_kernel, {block_count(experts, kWarpSize), kThreads}, stream, blocks, experts, partial, share);
}

void expert_share_backward(int64_t rows, int64_t experts, const float* scores, const float* dshare,
                           GradientOut dscores) {
  if (!dscores || rows == 0) return;
  launch(backward_kernel, {block_count(rows, kWarps), kThreads}, context().compute_stream(), rows, experts, scores,
         dshare, dscores.data, dscores.accumulate);
}

}  // namespace heddle::cuda
