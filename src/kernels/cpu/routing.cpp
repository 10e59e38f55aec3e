// Choice of experts: k rounds of selection per row (k is small), and mixing weights.
#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "kernels/cpu/operations.h"
#include "kernels/cpu/parallel.h"

namespace heddle::cpu {

namespace {

constexpr float kSmallestSum = 1e-9F;

/// Integers that sort like the selection values; below them come NaN, then what was chosen already.
constexpr int32_t kChosenKey = std::numeric_limits<int32_t>::min(), kNanKey = kChosenKey + 1;

int32_t sort_key(float value) {
  const auto bits = std::bit_cast<int32_t>(value + 0.0F);  // -0 becomes +0
  const int32_t key = bits < 0 ? bits ^ std::numeric_limits<int32_t>::max() : bits;
  return value == value ? key : kNanKey;
}

void choose_row(int64_t experts, int64_t k, const float* scores, const float* bias, int32_t* keys, int32_t* index) {
  if (bias == nullptr) {
#pragma omp simd
    for (int64_t e = 0; e < experts; ++e) keys[e] = sort_key(scores[e]);
  } else {
#pragma omp simd
    for (int64_t e = 0; e < experts; ++e) keys[e] = sort_key(scores[e] + bias[e]);
  }
  for (int64_t j = 0; j < k; ++j) {
    int32_t largest = kChosenKey;
#pragma omp simd reduction(max : largest)
    for (int64_t e = 0; e < experts; ++e) largest = std::max(largest, keys[e]);
    const auto best = std::find(keys, keys + experts, largest) - keys;  // a tie goes to the lower index
    index[j] = static_cast<int32_t>(best);
    keys[best] = kChosenKey;
  }
}

}  // namespace

void top_k(int64_t rows, int64_t experts, int64_t k, const float* scores, const float* bias, int32_t* index) {
#pragma omp parallel if (rows * experts > kParallelElements)
  {
    std::vector<int32_t> keys(static_cast<size_t>(experts));
#pragma omp for schedule(static)
    for (int64_t r = 0; r < rows; ++r) choose_row(experts, k, scores + r * experts, bias, keys.data(), index + r * k);
  }
}

void route_weights_forward(int64_t rows, int64_t experts, int64_t k, bool renormalise, const float* scores,
                           const int32_t* index, const uint8_t* keep, float* weights) {
#pragma omp parallel for schedule(static) if (rows * experts > kParallelElements)
  for (int64_t r = 0; r < rows; ++r) {
    float* const w = weights + r * k;
    float sum = 0, kept = 0;
    for (int64_t j = 0; j < k; ++j) sum += w[j] = scores[r * experts + index[r * k + j]];
    const float divisor = renormalise ? std::max(sum, kSmallestSum) : 1.0F;
    for (int64_t j = 0; j < k; ++j) w[j] /= divisor;
    if (keep == nullptr) continue;
    for (int64_t j = 0; j < k; ++j) kept += w[j] = keep[r * k + j] != 0 ? w[j] : 0.0F;
    for (int64_t j = 0; j < k; ++j) w[j] /= std::max(kept, kSmallestSum);
  }
}

void route_weights_backward(int64_t rows, int64_t experts, int64_t k, bool renormalise, const float* scores,
                            const int32_t* index, const uint8_t* keep, const float* dweights, GradientOut dscores) {
  if (!dscores) return;
#pragma omp parallel if (rows * experts > kParallelElements)
  {
    std::vector<float> w(static_cast<size_t>(k)), dw(static_cast<size_t>(k));
#pragma omp for schedule(static)
    for (int64_t r = 0; r < rows; ++r) {
      const int32_t* const chosen = index + r * k;
      float* const out = dscores.data + r * experts;
      if (!dscores.accumulate) std::fill_n(out, experts, 0.0F);
      float sum = 0, kept = 0, pull = 0;
      for (int64_t j = 0; j < k; ++j) sum += scores[r * experts + chosen[j]];
      const float divisor = renormalise ? std::max(sum, kSmallestSum) : 1.0F;
      for (size_t j = 0; j < w.size(); ++j) {
        w[j] = scores[r * experts + chosen[j]] / divisor;
        dw[j] = dweights[r * k + static_cast<int64_t>(j)];
      }
      if (keep != nullptr) {
        const uint8_t* const flags = keep + r * k;
        for (size_t j = 0; j < w.size(); ++j) kept += flags[j] != 0 ? w[j] : 0.0F;
        const float bounded = std::max(kept, kSmallestSum);
        if (kept >= kSmallestSum)
          for (size_t j = 0; j < w.size(); ++j) pull += flags[j] != 0 ? dw[j] * w[j] : 0.0F;
        pull /= bounded * bounded;
        for (size_t j = 0; j < w.size(); ++j) dw[j] = flags[j] != 0 ? dw[j] / bounded - pull : 0.0F;
        pull = 0;
      }
      if (renormalise && sum >= kSmallestSum)
        for (size_t j = 0; j < w.size(); ++j) pull += dw[j] * w[j];
      for (size_t j = 0; j < w.size(); ++j) out[chosen[j]] += (dw[j] - pull) / divisor;
    }
  }
}

}  // namespace heddle::cpu
