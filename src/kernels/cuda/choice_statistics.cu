// Statistics of the choice of experts. Blocks walk the slots or rows in an order that the shape decides; counts are
// integers, and sums in double are added over the blocks in a fixed order (partial_sums.h).
#include "cuda/context.h"
#include "cuda/device.cuh"
#include "cuda/scratch.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/partial_sums.h"

namespace heddle::cuda {

namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarpSize;

/// `lanes`, a power of two up to a warp, take a row: each compares some of its choices with all of the other's.
__global__ void __launch_bounds__(kThreads)
    overlaps_kernel(int64_t rows, int choices, int lanes, const int32_t* __restrict__ a, const int32_t* __restrict__ b,
                    unsigned long long* __restrict__ histogram) {
  DYNAMIC_SHARED(unsigned, of_block);
  for (int c = threadIdx.x; c <= choices; c += kThreads) of_block[c] = 0;
  __syncthreads();
  const int rows_of_block = kThreads / lanes, lane = static_cast<int>(threadIdx.x) % lanes;
  for (int64_t first = int64_t{blockIdx.x} * rows_of_block; first < rows; first += int64_t{gridDim.x} * rows_of_block) {
    const int64_t row = first + threadIdx.x / lanes;
    int common = 0;
    if (row < rows)
      for (int i = lane; i < choices; i += lanes) {
        const int32_t expert = a[row * choices + i];
        for (int j = 0; j < choices; ++j) common += expert == b[row * choices + j];
      }
    for (int distance = lanes / 2; distance > 0; distance /= 2) common += __shfl_xor_sync(kFullWarp, common, distance);
    if (row < rows && lane == 0) atomicAdd(&of_block[common], 1u);
  }
  __syncthreads();
  for (int c = threadIdx.x; c <= choices; c += kThreads)
    if (of_block[c] != 0) atomicAdd(&histogram[c], static_cast<unsigned long long>(of_block[c]));
}

__global__ void __launch_bounds__(kThreads)
    fresh_kernel(int64_t visits, int64_t slots, int choices, const int32_t* __restrict__ earlier,
                 const int32_t* __restrict__ index, unsigned long long* __restrict__ fresh) {
  unsigned long long count = 0;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t slot = int64_t{blockIdx.x} * kThreads + threadIdx.x; slot < slots; slot += step) {
    const int32_t expert = index[slot];
    const int64_t row = slot / choices * choices;
    bool met = false;
    for (int64_t visit = 0; visit < visits && !met; ++visit)
      for (int j = 0; j < choices; ++j) met |= earlier[visit * slots + row + j] == expert;
    count += !met;
  }
  count = block_sum(count);
  if (threadIdx.x == 0 && count > 0) atomicAdd(fresh, count);
}

/// A warp for each row.
__global__ void __launch_bounds__(kThreads)
    entropy_kernel(int64_t rows, int64_t width, const float* __restrict__ weights, double* __restrict__ sums) {
  double sum = 0;
  const int64_t step = int64_t{gridDim.x} * kWarps;
  for (int64_t row = int64_t{blockIdx.x} * kWarps + warp_index(); row < rows; row += step) {
    const float* const w = weights + row * width;
    double whole = 0;
    for (int64_t e = lane_index(); e < width; e += kWarpSize) whole += static_cast<double>(w[e]);
    whole = warp_sum(whole);
    for (int64_t e = lane_index(); e < width; e += kWarpSize) {
      const double p = static_cast<double>(w[e]) / whole;
      if (w[e] != 0.0f) sum -= p * log(p);
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__device__ __forceinline__ double row_sum(int choices, const float* weights) {
  double sum = 0;
  for (int i = 0; i < choices; ++i) sum += static_cast<double>(weights[i]);
  return sum;
}

/// A thread for each choice of a.
__global__ void __launch_bounds__(kThreads)
    weight_overlap_kernel(int64_t slots, int choices, const int32_t* __restrict__ index_a,
                          const float* __restrict__ weights_a, const int32_t* __restrict__ index_b,
                          const float* __restrict__ weights_b, double* __restrict__ sums) {
  double sum = 0;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t slot = int64_t{blockIdx.x} * kThreads + threadIdx.x; slot < slots; slot += step) {
    const int64_t row = slot / choices * choices;
    int64_t same = -1;
    for (int64_t j = row; j < row + choices; ++j)
      if (index_b[j] == index_a[slot]) same = j;
    if (same < 0) continue;
    const double whole_a = row_sum(choices, weights_a + row), whole_b = row_sum(choices, weights_b + row);
    if (whole_a == 0 || whole_b == 0) continue;
    const double p = static_cast<double>(weights_a[slot]) / whole_a, q = static_cast<double>(weights_b[same]) / whole_b;
    sum += (p + q - fabs(p - q)) / 2;  // the smaller one; NaN if either is
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/// Integers that sort like the numbers, with -0 below +0 and a NaN above all.
__device__ __forceinline__ int order_key(float value) {
  if (value != value) return 0x7fffffff;
  const int bits = __float_as_int(value);
  return bits < 0 ? bits ^ 0x7fffffff : bits;
}
__device__ __forceinline__ float of_order_key(int key) {
  return __int_as_float(key < 0 ? key ^ 0x7fffffff : key);
}

__global__ void __launch_bounds__(kThreads)
    largest_kernel(int64_t count, const float* __restrict__ x, int* __restrict__ largest_of_blocks) {
  int largest = static_cast<int>(0x80000000u);
  const int64_t step = int64_t{gridDim.x} * kThreads;
#pragma unroll 4
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step)
    largest = max(largest, order_key(x[i]));
  largest = block_max(largest);
  if (threadIdx.x == 0) largest_of_blocks[blockIdx.x] = largest;
}

/// One block.
__global__ void __launch_bounds__(kThreads)
    keep_maximum_kernel(int blocks, const int* __restrict__ largest_of_blocks, float* __restrict__ maximum) {
  int largest = order_key(*maximum);
  for (int i = threadIdx.x; i < blocks; i += kThreads) largest = max(largest, largest_of_blocks[i]);
  largest = block_max(largest);  // behind its barriers all have read *maximum
  if (threadIdx.x == 0) *maximum = of_order_key(largest);
}

/// Calls sum(sums) to leave a sum for each block, and adds them up.
template <typename Sum>
void add_over_blocks(unsigned blocks, double* total, const Sum& sum) {
  Scratch scratch(Scratch::bytes_of<double>(blocks));
  auto* const sums = scratch.take<double>(blocks);
  sum(sums);
  add_partial_sums(1, blocks, 1, sums, total);
}

unsigned long long* counter(int64_t* count) {
  return reinterpret_cast<unsigned long long*>(count);
}

}  // namespace

void count_overlaps(int64_t rows, int64_t choices, const int32_t* a, const int32_t* b, int64_t* histogram) {
  if (rows == 0) return;
  int lanes = 1;
  while (lanes < kWarpSize && lanes < choices) lanes *= 2;
  launch(overlaps_kernel,
         {blocks_with_sums(rows, kThreads / lanes), kThreads, static_cast<size_t>(choices + 1) * sizeof(unsigned)},
         context().compute_stream(), rows, to_int(choices), lanes, a, b, counter(histogram));
}

void count_fresh(int64_t visits, int64_t rows, int64_t choices, const int32_t* earlier, const int32_t* index,
                 int64_t* fresh) {
  const int64_t slots = rows * choices;
  if (slots == 0) return;
  launch(fresh_kernel, {blocks_with_sums(slots, kThreads), kThreads}, context().compute_stream(), visits, slots,
         to_int(choices), earlier, index, counter(fresh));
}

void add_entropy(int64_t rows, int64_t width, const float* weights, double* sum) {
  if (rows == 0) return;
  const unsigned blocks = blocks_with_sums(rows, kWarps);
  add_over_blocks(blocks, sum, [&](double* sums) {
    launch(entropy_kernel, {blocks, kThreads}, context().compute_stream(), rows, width, weights, sums);
  });
}

void add_weight_overlap(int64_t rows, int64_t choices, const int32_t* index_a, const float* weights_a,
                        const int32_t* index_b, const float* weights_b, double* sum) {
  const int64_t slots = rows * choices;
  if (slots == 0) return;
  const unsigned blocks = blocks_with_sums(slots, kThreads);
  add_over_blocks(blocks, sum, [&](double* sums) {
    launch(weight_overlap_kernel, {blocks, kThreads}, context().compute_stream(), slots, to_int(choices), index_a,
           weights_a, index_b, weights_b, sums);
  });
}

void keep_maximum(int64_t count, const float* x, float* maximum) {
  if (count == 0) return;
  const unsigned blocks = blocks_with_sums(count, kThreads);
  Scratch scratch(Scratch::bytes_of<int>(blocks));
  auto* const largest_of_blocks = scratch.take<int>(blocks);
  const cudaStream_t stream = context().compute_stream();
  launch(largest_kernel, {blocks, kThreads}, stream, count, x, largest_of_blocks);
  launch(keep_maximum_kernel, {1, kThreads}, stream, static_cast<int>(blocks), largest_of_blocks, maximum);
}

}  // namespace heddle::cuda
