#include "comm/cuda/rank_sum.h"

#include <algorithm>

#include "cuda/device.cuh"

namespace heddle::cuda {

namespace {

__global__ void sum_ranks_kernel(int64_t count, int ranks, int own, const float* contributions, float* values) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const float mine = values[i];
    float sum = own == 0 ? mine : contributions[i];
    for (int rank = 1; rank < ranks; ++rank) sum += rank == own ? mine : contributions[rank * count + i];
    values[i] = sum;
  }
}

}  // namespace

void sum_ranks(int64_t count, int ranks, int own, const float* contributions, float* values, cudaStream_t stream) {
  if (count == 0) return;
  constexpr int kThreads = 256;
  const unsigned blocks = std::min(block_count(count, kThreads), 4096U);
  launch(sum_ranks_kernel, {blocks, kThreads}, stream, count, ranks, own, contributions, values);
}

}  // namespace heddle::cuda
