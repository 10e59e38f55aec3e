// Each block sums a tile; one block makes running sums of these; then each block does so within its tile.
#include "cuda/context.h"
#include "cuda/device.cuh"
#include "kernels/cuda/running_sums.h"

namespace heddle::cuda {

namespace {

constexpr int kThreads = 256, kPerThread = 4, kTile = kThreads * kPerThread;

/// The thread's stretch of the tile, with zeros beyond the end.
struct Stretch {
  int64_t first;
  int values[kPerThread];

  __device__ Stretch(int64_t count, const int32_t* counts)
      : first(int64_t{blockIdx.x} * kTile + threadIdx.x * kPerThread) {
    for (int i = 0; i < kPerThread; ++i) values[i] = first + i < count ? counts[first + i] : 0;
  }
  __device__ int64_t sum() const {
    int64_t total = 0;
    for (const int value : values) total += value;
    return total;
  }
};

__global__ void __launch_bounds__(kThreads)
    sum_tiles_kernel(int64_t count, const int32_t* __restrict__ counts, int64_t* __restrict__ tile_sums) {
  const int64_t sum = block_sum(Stretch(count, counts).sum());
  if (threadIdx.x == 0) tile_sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(1024) start_tiles_kernel(int64_t tiles, int64_t* tile_sums) {
  running_sums_of_list(tiles, tile_sums, [&](int64_t tile) { return tile_sums[tile]; });
}

__global__ void __launch_bounds__(kThreads)
    sum_within_tiles_kernel(int64_t count, const int32_t* __restrict__ counts, const int64_t* __restrict__ tile_begin,
                            int64_t* __restrict__ sums) {
  const Stretch stretch(count, counts);
  int64_t before = tile_begin[blockIdx.x] + block_running_sum(stretch.sum()).before;
  for (int i = 0; i < kPerThread; ++i) {
    if (stretch.first + i <= count) sums[stretch.first + i] = before;
    before += stretch.values[i];
  }
}

unsigned tiles_of(int64_t count) {
  return block_count(count + 1, kTile);
}

}  // namespace

size_t running_sums_bytes(int64_t count) {
  return Scratch::bytes_of<int64_t>(tiles_of(count) + int64_t{1});
}

void running_sums(int64_t count, const int32_t* counts, int64_t* sums, Scratch& scratch) {
  const unsigned tiles = tiles_of(count);
  int64_t* const tile_sums = scratch.take<int64_t>(tiles + int64_t{1});
  const cudaStream_t stream = context().compute_stream();
  launch(sum_tiles_kernel, {tiles, kThreads}, stream, count, counts, tile_sums);
  launch(start_tiles_kernel, {1, threads_of_one_block(tiles)}, stream, tiles, tile_sums);
  launch(sum_within_tiles_kernel, {tiles, kThreads}, stream, count, counts, tile_sums, sums);
}

}  // namespace heddle::cuda
