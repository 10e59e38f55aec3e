#include "cuda/simple_kernels.h"

#include "cuda/device.cuh"

namespace heddle::cuda {

namespace {

__global__ void scale_kernel(float* __restrict__ values, int64_t count, float factor) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) values[i] *= factor;
}

__global__ void sum_rows_kernel(const float* __restrict__ values, float* __restrict__ sums, int64_t columns) {
  const float* row = values + blockIdx.x * columns;
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) sum += row[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

}  // namespace

void scale_on_device(float* values, int64_t count, float factor, cudaStream_t stream) {
  if (count == 0) return;
  launch(scale_kernel, {block_count(count, 256), 256}, stream, values, count, factor);
}

void sum_rows_on_device(const float* values, float* sums, int64_t rows, int64_t columns, cudaStream_t stream) {
  if (rows == 0) return;
  launch(sum_rows_kernel, {block_count(rows, 1), 128}, stream, values, sums, columns);
}

}  // namespace heddle::cuda
