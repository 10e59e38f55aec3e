// Accesses that nothing orders: inside a warp, a block, between blocks.
#include "cuda/device.cuh"
#include "cuda_emulation/faults/fault.h"

namespace heddle::cuda {

namespace {

__global__ void missing_syncwarp_kernel(float* out, bool faulty) {
  SHARED_ARRAY(float, values, 32);
  values[threadIdx.x] = 1.0f;
  const float one = __shfl_xor_sync(kFullWarp, 1.0f, 1);  // brings lanes together and orders no memory
  if (!faulty) __syncwarp();
  out[threadIdx.x] = values[31 - threadIdx.x] + one;
}

void missing_syncwarp(bool faulty) {
  launch(missing_syncwarp_kernel, {1, 32}, compute_stream(), device_values(std::vector<float>(32)), faulty);
}

__global__ void missing_barrier_kernel(float* out, bool faulty) {
  SHARED_ARRAY(float, values, 128);
  float sum = 0.0f;
  for (int i = 0; i < 4; ++i) {
    values[threadIdx.x] = static_cast<float>(i);
    __syncthreads();
    sum += values[127 - threadIdx.x];
    if (!faulty) __syncthreads();  // else the next round writes what others still read
  }
  out[threadIdx.x] = sum;
}

void missing_barrier(bool faulty) {
  launch(missing_barrier_kernel, {1, 128}, compute_stream(), device_values(std::vector<float>(128)), faulty);
}

__global__ void count_kernel(int* counts, bool faulty) {
  int* const count = &counts[threadIdx.x % 4];
  if (faulty)
    *count += 1;
  else
    atomicAdd(count, 1);
}

void missing_atomic(bool faulty) {
  auto* const counts = static_cast<int*>(device_malloc(4 * sizeof(int)));
  fill_bytes(counts, 0, 4 * sizeof(int));
  launch(count_kernel, {2, 64}, compute_stream(), counts, faulty);
}

__global__ void blocks_talk_kernel(float* out, bool faulty) {
  if (blockIdx.x == 0 && threadIdx.x == 0) out[0] = 5.0f;
  if (blockIdx.x == 1 && threadIdx.x == 0) out[1] = faulty ? out[0] : 1.0f;
}

void blocks_talk(bool faulty) {
  // Some pairs of blocks share ThreadSanitizer's threads: several launches leave no doubt.
  float* const out = device_values(std::vector<float>(2));
  for (int i = 0; i < 8; ++i) launch(blocks_talk_kernel, {2, 32}, compute_stream(), out, faulty);
}

__global__ void last_block_sums_kernel(float* partial, unsigned* finished, float* out, bool faulty) {
  SHARED_VAR(bool, is_last);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = 1.0f;
    if (!faulty) __threadfence();
    is_last = atomicAdd(finished, 1u) == gridDim.x - 1;
    if (!faulty) __threadfence();
  }
  __syncthreads();
  if (!is_last) return;
  const float sum = block_sum(threadIdx.x < gridDim.x ? partial[threadIdx.x] : 0.0f);
  if (threadIdx.x == 0) *out = sum;
}

void missing_fence(bool faulty) {
  float* const partial = device_values(std::vector<float>(16));
  float* const out = device_values({0.0f});
  auto* const finished = static_cast<unsigned*>(device_malloc(sizeof(unsigned)));
  for (int i = 0; i < 4; ++i) {
    fill_bytes(finished, 0, sizeof(unsigned));
    launch(last_block_sums_kernel, {16, 32}, compute_stream(), partial, finished, out, faulty);
  }
  expect_values(host_values(out, 1), {16.0f});
}

}  // namespace

std::vector<Fault> race_faults() {
  const char* race = "ThreadSanitizer: data race";
  return {
      {"missing_syncwarp", "lanes talk through shared memory without __syncwarp", nullptr, nullptr, race,
       missing_syncwarp},
      {"missing_barrier", "a barrier is missing between reads and the next writes", nullptr, nullptr, race,
       missing_barrier},
      {"missing_atomic", "threads count without an atomic operation", nullptr, nullptr, race, missing_atomic},
      {"blocks_talk", "a block reads what another one of the grid writes", nullptr, nullptr, race, blocks_talk},
      {"missing_fence", "the last block sums up what others wrote without a fence", nullptr, nullptr, race,
       missing_fence},
  };
}

}  // namespace heddle::cuda
