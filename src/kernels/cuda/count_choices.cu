// Slots of each expert. Blocks count in shared memory, once for all lanes that hold the same expert, so a collapsed
// router costs no more than an even one.
#include <algorithm>

#include "cuda/context.h"
#include "cuda/device.cuh"
#include "kernels/cuda/operations.h"

namespace heddle::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 256;

__global__ void __launch_bounds__(kThreads) count_kernel(int64_t slots, int experts, const int32_t* __restrict__ index,
                                                         const uint8_t* __restrict__ keep, unsigned long long* counts) {
  DYNAMIC_SHARED(unsigned, of_block);
  for (int expert = threadIdx.x; expert < experts; expert += kThreads) of_block[expert] = 0;
  __syncthreads();
  for (int64_t first = int64_t{blockIdx.x} * kThreads; first < slots; first += int64_t{gridDim.x} * kThreads) {
    const int64_t slot = first + threadIdx.x;
    const bool used = slot < slots && (keep == nullptr || keep[slot] != 0);
    const int expert = used ? index[slot] : -1;
    const unsigned peers = __match_any_sync(kFullWarp, expert);
    if (used && lane_index() == __ffs(static_cast<int>(peers)) - 1)
      atomicAdd(&of_block[expert], static_cast<unsigned>(__popc(peers)));
  }
  __syncthreads();
  for (int expert = threadIdx.x; expert < experts; expert += kThreads)
    if (of_block[expert] != 0) atomicAdd(&counts[expert], static_cast<unsigned long long>(of_block[expert]));
}

}  // namespace

void count_choices(int64_t slots, int64_t experts, const int32_t* index, const uint8_t* keep, int64_t* counts) {
  if (slots == 0) return;
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(block_count(slots, kThreads), kMostBlocks));
  launch(count_kernel, {blocks, kThreads, static_cast<size_t>(experts) * sizeof(unsigned)}, context().compute_stream(),
         slots, to_int(experts), index, keep, reinterpret_cast<unsigned long long*>(counts));
}

}  // namespace heddle::cuda
