// Softmax and squared logsumexp of short rows (a row has the scores of experts), a warp for each: memory is read once,
// then the row is in cache.
#include <cmath>

#include "cuda/context.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/vectors.cuh"

namespace heddle::cuda {

namespace {

/// The row's largest element, and the sum of the exponentials of how far all lie below it.
struct Exponentials {
  float largest, total;
};
__device__ __forceinline__ Exponentials exponentials(int64_t width, const float* x) {
  float largest = -INFINITY;
  for (int64_t i = lane_index(); i < width; i += kWarpSize) largest = fmaxf(largest, x[i]);
  largest = warp_max(largest);
  float total = 0;
  for (int64_t i = lane_index(); i < width; i += kWarpSize) total += expf(x[i] - largest);
  return {largest, warp_sum(total)};
}

/// Row of this warp, as in all kernels below.
__device__ __forceinline__ int64_t row_of_warp() {
  return int64_t{blockIdx.x} * kWarps + warp_index();
}

__global__ void __launch_bounds__(kThreads) forward_kernel(int64_t rows, int64_t width, const float* x, float* y) {
  const int64_t r = row_of_warp();
  if (r >= rows) return;
  const float* const from = x + r * width;
  float* const to = y + r * width;
  const Exponentials e = exponentials(width, from);
  const float inverse = 1.0f / e.total;
  for (int64_t i = lane_index(); i < width; i += kWarpSize) to[i] = expf(from[i] - e.largest) * inverse;
}

__global__ void __launch_bounds__(kThreads)
    backward_kernel(int64_t rows, int64_t width, const float* y, const float* dy, float* dx, bool accumulate) {
  const int64_t r = row_of_warp();
  if (r >= rows) return;
  float dot = 0;
  for (int64_t i = r * width + lane_index(); i < (r + 1) * width; i += kWarpSize) dot += y[i] * dy[i];
  dot = warp_sum(dot);
  for (int64_t i = r * width + lane_index(); i < (r + 1) * width; i += kWarpSize) {
    const float gradient = y[i] * (dy[i] - dot);
    dx[i] = accumulate ? dx[i] + gradient : gradient;
  }
}

/// dx may be null.
__global__ void __launch_bounds__(kThreads)
    squared_log_sum_exp_kernel(int64_t rows, int64_t width, float gradient_scale, const float* x, double* square,
                               float* dx, bool accumulate) {
  const int64_t r = row_of_warp();
  if (r >= rows) return;
  const float* const from = x + r * width;
  const Exponentials e = exponentials(width, from);
  const double log_total = static_cast<double>(e.largest) + log(static_cast<double>(e.total));
  if (lane_index() == 0) square[r] = log_total * log_total;
  if (dx == nullptr) return;
  float* const to = dx + r * width;
  const auto factor =
      static_cast<float>(2.0 * static_cast<double>(gradient_scale) * log_total / static_cast<double>(e.total));
  for (int64_t i = lane_index(); i < width; i += kWarpSize) {
    const float gradient = factor * expf(from[i] - e.largest);
    to[i] = accumulate ? to[i] + gradient : gradient;
  }
}

}  // namespace

void softmax_forward(int64_t rows, int64_t width, const float* x, float* y) {
  if (rows == 0) return;
  launch(forward_kernel, {block_count(rows, kWarps), kThreads}, context().compute_stream(), rows, width, x, y);
}

void softmax_backward(int64_t rows, int64_t width, const float* y, const float* dy, GradientOut dx) {
  if (rows == 0 || !dx) return;
  launch(backward_kernel, {block_count(rows, kWarps), kThreads}, context().compute_stream(), rows, width, y, dy,
         dx.data, dx.accumulate);
}

void squared_log_sum_exp(int64_t rows, int64_t width, float gradient_scale, const float* x, double* square,
                         GradientOut dx) {
  if (rows == 0) return;
  launch(squared_log_sum_exp_kernel, {block_count(rows, kWarps), kThreads}, context().compute_stream(), rows, width,
         gradient_scale, x, square, dx.data, dx.accumulate);
}

}  // namespace heddle::cuda
