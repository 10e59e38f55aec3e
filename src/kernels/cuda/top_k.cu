// Choice of experts. A warp takes a row: each lane owns every 32nd expert and holds the best of those that it has not
// given away; in each round the warp picks the best of the lanes' best, and its owner looks for the next one. So a row
// needs no memory of its own, and may have any number of experts.
#include "cuda/context.h"
#include "cuda/device.cuh"
#include "kernels/cuda/operations.h"

namespace heddle::cuda {

namespace {

constexpr int kThreads = 256, kRowsPerBlock = kThreads / kWarpSize;
constexpr unsigned kNobody = 0xffffffffu;

struct Candidate {
  uint32_t key;  ///< sort_key of the selection value
  unsigned expert;
};

/// The lane's best expert among those that come after `last`: with a smaller key, or an equal one and a higher index.
__device__ Candidate next_candidate(int64_t experts, const float* __restrict__ scores, const float* __restrict__ bias,
                                    Candidate last) {
  Candidate best = {0, kNobody};
  for (unsigned e = lane_index(); e < experts; e += kWarpSize) {
    const uint32_t key = sort_key(bias == nullptr ? scores[e] : scores[e] + bias[e]);
    const bool after = key < last.key || (key == last.key && e > last.expert);
    if (after && key > best.key) best = {key, e};
  }
  return best;
}

__global__ void __launch_bounds__(kThreads)
    top_k_kernel(int64_t rows, int64_t experts, int64_t k, const float* __restrict__ scores,
                 const float* __restrict__ bias, int32_t* __restrict__ index) {
  const int64_t row = int64_t{blockIdx.x} * kRowsPerBlock + warp_index();
  if (row >= rows) return;
  const float* const values = scores + row * experts;
  Candidate mine = next_candidate(experts, values, bias, {0xffffffffu, 0});  // no key is as large
  for (int64_t j = 0; j < k; ++j) {
    const uint32_t largest = __reduce_max_sync(kFullWarp, mine.key);
    const unsigned chosen = __reduce_min_sync(kFullWarp, mine.key == largest ? mine.expert : kNobody);
    if (mine.expert != chosen) continue;
    index[row * k + j] = static_cast<int32_t>(chosen);
    mine = next_candidate(experts, values, bias, mine);
  }
}

}  // namespace

void top_k(int64_t rows, int64_t experts, int64_t k, const float* scores, const float* bias, int32_t* index) {
  if (rows == 0) return;
  launch(top_k_kernel, {block_count(rows, kRowsPerBlock), kThreads}, context().compute_stream(), rows, experts, k,
         scores, bias, index);
}

}  // namespace heddle::cuda
