// Sums for statistics. A block adds what a stretch of fixed size holds; one block adds these up in a fixed order, onto
// a number on the device. So the bits depend on nothing but the input, and the host does not wait.
#include "cuda/context.h"
#include "cuda/scratch.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/partial_sums.h"
#include "kernels/cuda/stored.h"
#include "kernels/cuda/vectors.cuh"

namespace heddle::cuda {

namespace {

constexpr int64_t kPiece = int64_t{1} << 15;

template <typename T>
__global__ void __launch_bounds__(kThreads)
    squares_kernel(int64_t count, const T* __restrict__ x, double* __restrict__ sums) {
  constexpr int kPack = kPackSize<T>;
  const int64_t begin = blockIdx.x * kPiece, end = begin + kPiece < count ? begin + kPiece : count;
  double sum = 0;
  for (int64_t first = begin + threadIdx.x * kPack; first < end; first += kThreads * kPack) {
    const auto elements = load<kPack>(x, first, end);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      const auto value = static_cast<double>(to_float(elements.values[i]));
      sum += value * value;
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/// A block for each sum.
__global__ void __launch_bounds__(kThreads)
    add_kernel(int64_t count, double scale, const double* __restrict__ partials, double* __restrict__ totals) {
  const double* const of_sum = partials + blockIdx.x * count;
  double sum = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < count; i += kThreads) sum += of_sum[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) totals[blockIdx.x] += scale * sum;
}

/// One block.
__global__ void __launch_bounds__(kThreads)
    mean_squares_kernel(int64_t rows, double eps, const float* __restrict__ inverse_rms, double* __restrict__ total) {
  double sum = 0;
  for (int64_t row = threadIdx.x; row < rows; row += kThreads) {
    const auto value = static_cast<double>(inverse_rms[row]);
    sum += 1 / (value * value) - eps;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) *total += sum;
}

}  // namespace

void add_partial_sums(int64_t sums, int64_t count, double scale, const double* partials, double* totals) {
  if (sums == 0 || count == 0) return;
  launch(add_kernel, {block_count(sums, 1), kThreads}, context().compute_stream(), count, scale, partials, totals);
}

void add_doubles(int64_t count, const double* x, double* sum) {
  add_partial_sums(1, count, 1, x, sum);
}

void add_squares(int64_t count, double scale, ConstReals x, double* sum) {
  if (count == 0) return;
  const unsigned pieces = block_count(count, kPiece);
  Scratch scratch(Scratch::bytes_of<double>(pieces));
  auto* const sums = scratch.take<double>(pieces);
  with_stored(x.type, [&]<typename T>(T) {
    launch(squares_kernel<T>, {pieces, kThreads}, context().compute_stream(), count, static_cast<const T*>(x.data),
           sums);
  });
  add_partial_sums(1, pieces, scale, sums, sum);
}

void add_mean_squares(int64_t rows, double eps, const float* inverse_rms, double* sum) {
  if (rows == 0) return;
  launch(mean_squares_kernel, {1, kThreads}, context().compute_stream(), rows, eps, inverse_rms, sum);
}

}  // namespace heddle::cuda
