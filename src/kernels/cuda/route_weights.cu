// Mixing weights of the chosen experts. A group of eight lanes takes a row; its k scores are read again for each of the
// few sums, from the cache.
#include "cuda/context.h"
#include "cuda/copies.h"
#include "cuda/device.cuh"
#include "kernels/cuda/operations.h"

namespace heddle::cuda {

namespace {

constexpr int kThreads = 256, kGroup = 8, kRowsPerBlock = kThreads / kGroup;
constexpr float kSmallestSum = 1e-9f;

/// Of the lanes of a group; all lanes of the warp call together.
__device__ float group_sum(float value) {
#pragma unroll
  for (int distance = kGroup / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(kFullWarp, value, distance, kGroup);
  return value;
}

/// A NaN stays one.
__device__ float bounded(float sum) {
  return sum < kSmallestSum ? kSmallestSum : sum;
}

struct Choices {
  int64_t rows, experts;
  int k;
  bool renormalise;
  const float* scores;
  const int32_t* index;
  const uint8_t* keep;
};

/// One row as its group sees it. Beyond the last row there are no choices.
class Row {
 public:
  __device__ explicit Row(const Choices& choices)
      : renormalise_(choices.renormalise),
        row_(int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.x / kGroup),
        k_(row_ < choices.rows ? choices.k : 0),
        scores_(choices.scores + row_ * choices.experts),
        index_(choices.index + row_ * choices.k),
        keep_(choices.keep == nullptr ? nullptr : choices.keep + row_ * choices.k) {}

  /// Calls visit(j) for the choices of this lane.
  template <typename Visit>
  __device__ void for_each_choice(const Visit& visit) const {
    for (int j = static_cast<int>(threadIdx.x) % kGroup; j < k_; j += kGroup) visit(j);
  }
  __device__ int64_t number() const { return row_; }
  __device__ int32_t expert(int j) const { return index_[j]; }
  __device__ float score(int j) const { return scores_[index_[j]]; }
  __device__ bool kept(int j) const { return keep_ == nullptr || keep_[j] != 0; }
  __device__ float sum_of_scores() const {
    if (!renormalise_) return 1;
    float sum = 0;
    for_each_choice([&](int j) { sum += score(j); });
    return group_sum(sum);
  }

 private:
  bool renormalise_;
  int64_t row_;
  int k_;
  const float* scores_;
  const int32_t* index_;
  const uint8_t* keep_;
};

__global__ void __launch_bounds__(kThreads) forward_kernel(Choices choices, float* __restrict__ weights) {
  const Row row(choices);
  float* const out = weights + row.number() * choices.k;
  const float inverse = 1 / bounded(row.sum_of_scores());
  float kept_inverse = 1;
  if (choices.keep != nullptr && choices.renormalise) {
    float kept = 0;
    row.for_each_choice([&](int j) { kept += row.kept(j) ? row.score(j) * inverse : 0.0f; });
    kept_inverse = 1 / bounded(group_sum(kept));
  }
  row.for_each_choice([&](int j) { out[j] = row.kept(j) ? row.score(j) * inverse * kept_inverse : 0.0f; });
}

/// Adds to the entries of the chosen experts.
__global__ void __launch_bounds__(kThreads)
    backward_kernel(Choices choices, const float* __restrict__ dweights, float* __restrict__ dscores) {
  const Row row(choices);
  const float* const dw = dweights + row.number() * choices.k;
  float* const out = dscores + row.number() * choices.experts;
  const float sum = row.sum_of_scores(), inverse = 1 / bounded(sum);
  // Of out_j = keep_j w_j / kept:
  float kept_inverse = 1, kept_pull = 0;
  if (choices.keep != nullptr && choices.renormalise) {
    float kept = 0, dot = 0;
    row.for_each_choice([&](int j) {
      const float w = row.kept(j) ? row.score(j) * inverse : 0.0f;
      kept += w;
      dot += w * dw[j];
    });
    kept = group_sum(kept);
    dot = group_sum(dot);
    kept_inverse = 1 / bounded(kept);
    kept_pull = kept < kSmallestSum ? 0.0f : dot * kept_inverse * kept_inverse;
  }
  const auto to_weight = [&](int j) { return row.kept(j) ? dw[j] * kept_inverse - kept_pull : 0.0f; };
  // Of w_j = s_j / sum:
  float pull = 0;
  if (choices.renormalise) {
    float dot = 0;
    row.for_each_choice([&](int j) { dot += to_weight(j) * row.score(j) * inverse; });
    dot = group_sum(dot);
    pull = sum < kSmallestSum ? 0.0f : dot;
  }
  row.for_each_choice([&](int j) { out[row.expert(j)] += (to_weight(j) - pull) * inverse; });
}

}  // namespace

void route_weights_forward(int64_t rows, int64_t experts, int64_t k, bool renormalise, const float* scores,
                           const int32_t* index, const uint8_t* keep, float* weights) {
  if (rows == 0) return;
  launch(forward_kernel, {block_count(rows, kRowsPerBlock), kThreads}, context().compute_stream(),
         Choices{rows, experts, to_int(k), renormalise, scores, index, keep}, weights);
}

void route_weights_backward(int64_t rows, int64_t experts, int64_t k, bool renormalise, const float* scores,
                            const int32_t* index, const uint8_t* keep, const float* dweights, GradientOut dscores) {
  if (!dscores || rows == 0) return;
  if (!dscores.accumulate) fill_bytes(dscores.data, 0, static_cast<size_t>(rows * experts) * sizeof(float));
  launch(backward_kernel, {block_count(rows, kRowsPerBlock), kThreads}, context().compute_stream(),
         Choices{rows, experts, to_int(k), renormalise, scores, index, keep}, dweights, dscores.data);
}

}  // namespace heddle::cuda
