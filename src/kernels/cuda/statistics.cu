// Sums for statistics. A block adds what a stretch of fixed size holds; one block adds these up in a fixed order, onto
// a number on the device. So the bits depend on nothing but the input, and the host does not wait.
#include <algorithm>

#include "cuda/context.h"
#include "cuda/scratch.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/stored.h"
#include "kernels/cuda/vectors.cuh"

namespace heddle::cuda {

namespace {

constexpr int64_t kPiece = int64_t{1} << 15;
constexpr int64_t kMostBlocks = 256;

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

/// One block.
__global__ void __launch_bounds__(kThreads)
    add_kernel(int64_t count, double scale, const double* __restrict__ sums, double* __restrict__ total) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) sum += sums[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *total += scale * sum;
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

__global__ void __launch_bounds__(kThreads)
    common_kernel(int64_t slots, int choices, const int32_t* __restrict__ a, const int32_t* __restrict__ b,
                  unsigned long long* __restrict__ total) {
  int common = 0;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t slot = int64_t{blockIdx.x} * kThreads + threadIdx.x; slot < slots; slot += step) {
    const int64_t row = slot / choices * choices;
    for (int j = 0; j < choices; ++j) common += a[slot] == b[row + j];
  }
  const double of_block = block_sum(static_cast<double>(common));
  if (threadIdx.x == 0 && of_block > 0) atomicAdd(total, static_cast<unsigned long long>(of_block));
}

}  // namespace

void count_common(int64_t rows, int64_t choices, const int32_t* a, const int32_t* b, int64_t* total) {
  if (rows == 0) return;
  const int64_t slots = rows * choices;
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(block_count(slots, kThreads), kMostBlocks));
  launch(common_kernel, {blocks, kThreads}, context().compute_stream(), slots, to_int(choices), a, b,
         reinterpret_cast<unsigned long long*>(total));
}

void add_squares(int64_t count, double scale, ConstReals x, double* sum) {
  if (count == 0) return;
  const unsigned pieces = block_count(count, kPiece);
  Scratch scratch(Scratch::bytes_of<double>(pieces));
  auto* const sums = scratch.take<double>(pieces);
  const cudaStream_t stream = context().compute_stream();
  with_stored(x.type, [&]<typename T>(T) {
    launch(squares_kernel<T>, {pieces, kThreads}, stream, count, static_cast<const T*>(x.data), sums);
  });
  launch(add_kernel, {1, kThreads}, stream, int64_t{pieces}, scale, sums, sum);
}

void add_mean_squares(int64_t rows, double eps, const float* inverse_rms, double* sum) {
  if (rows == 0) return;
  launch(mean_squares_kernel, {1, kThreads}, context().compute_stream(), rows, eps, inverse_rms, sum);
}

}  // namespace heddle::cuda
