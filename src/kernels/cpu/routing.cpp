// Choice of experts: k rounds of selection per row (k is small), and mixing weights.
#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/cpu/operations.h"
#include "kernels/cpu/vector_math.h"
#include "support/narrow.h"
#include "support/parallel.h"

namespace heddle::cpu {

namespace {

constexpr float kSmallestSum = 1e-9F;
constexpr int64_t kVector = 16;  // numbers in one vector register

/// Integers that sort like the selection values; below them come NaN, then what was chosen already.
constexpr int32_t kChosenKey = std::numeric_limits<int32_t>::min(), kNanKey = kChosenKey + 1;

int32_t selection_key(float value) {
  return value == value ? sort_key(value + 0.0F) : kNanKey;  // -0 becomes +0
}

/// keys has room for `count` rounded up to whole vectors; its tail is never chosen.
void choose_row(int32_t count, int64_t k, const float* scores, const float* bias, std::vector<int32_t>& keys,
                int32_t* index) {
#pragma omp simd
  for (int32_t e = 0; e < count; ++e) keys[e] = selection_key(bias == nullptr ? scores[e] : scores[e] + bias[e]);
  const auto padded = static_cast<int32_t>(keys.size());
  for (int64_t j = 0; j < k; ++j) {
    int32_t largest = kChosenKey;
#pragma omp simd reduction(max : largest)
    for (int32_t e = 0; e < padded; ++e) largest = keys[e] > largest ? keys[e] : largest;
    int32_t best = padded;  // a tie goes to the lower index
#pragma omp simd reduction(min : best)
    for (int32_t e = 0; e < padded; ++e) {
      const int32_t candidate = keys[e] == largest ? e : padded;
      best = candidate < best ? candidate : best;
    }
    index[j] = best;
    keys[best] = kChosenKey;
  }
}

float row_sum(int64_t count, const float* x) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += x[i];
  return sum;
}

}  // namespace

void top_k(int64_t rows, int64_t experts, int64_t k, const float* scores, const float* bias, int32_t* index) {
  const auto count = narrow<int32_t>(experts);
  parallel_chunks(rows, rows * experts > kParallelElements, [=](Chunk chunk) {
    std::vector<int32_t> keys(static_cast<size_t>(div_up(experts, kVector) * kVector), kChosenKey);
    for (int64_t r = chunk.first; r < chunk.last; ++r)
      choose_row(count, k, scores + r * experts, bias, keys, index + r * k);
  });
}

void route_weights_forward(int64_t rows, int64_t experts, int64_t k, bool renormalise, const float* scores,
                           const int32_t* index, const uint8_t* keep, float* weights) {
  parallel_for(rows, rows * experts > kParallelElements, [=](int64_t r) {
    float* const w = weights + r * k;
    float sum = 0, kept = 0;
    for (int64_t j = 0; j < k; ++j) sum += w[j] = scores[r * experts + index[r * k + j]];
    const float divisor = renormalise ? std::max(sum, kSmallestSum) : 1.0F;
    for (int64_t j = 0; j < k; ++j) w[j] /= divisor;
    if (keep == nullptr) return;
    for (int64_t j = 0; j < k; ++j) kept += w[j] = keep[r * k + j] != 0 ? w[j] : 0.0F;
    if (!renormalise) return;
    for (int64_t j = 0; j < k; ++j) w[j] /= std::max(kept, kSmallestSum);
  });
}

void route_weights_backward(int64_t rows, int64_t experts, int64_t k, bool renormalise, const float* scores,
                            const int32_t* index, const uint8_t* keep, const float* dweights, GradientOut dscores) {
  if (!dscores) return;
  parallel_chunks(rows, rows * experts > kParallelElements, [=](Chunk chunk) {
    std::vector<float> w(static_cast<size_t>(k)), dw(static_cast<size_t>(k));
    for (int64_t r = chunk.first; r < chunk.last; ++r) {
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
        const float bounded = renormalise ? std::max(kept, kSmallestSum) : 1.0F;
        if (renormalise && kept >= kSmallestSum)
          for (size_t j = 0; j < w.size(); ++j) pull += flags[j] != 0 ? dw[j] * w[j] : 0.0F;
        pull /= bounded * bounded;
        for (size_t j = 0; j < w.size(); ++j) dw[j] = flags[j] != 0 ? dw[j] / bounded - pull : 0.0F;
        pull = 0;
      }
      if (renormalise && sum >= kSmallestSum)
        for (size_t j = 0; j < w.size(); ++j) pull += dw[j] * w[j];
      for (size_t j = 0; j < w.size(); ++j) out[chosen[j]] += (dw[j] - pull) / divisor;
    }
  });
}

void expert_share_forward(int64_t rows, int64_t experts, const float* scores, float* share) {
  // One partial sum per block of rows, added in order: the thread count does not show.
  constexpr int64_t kBlock = 256;
  const int64_t blocks = div_up(rows, kBlock);
  std::vector<double> partials(static_cast<size_t>(blocks * experts), 0);
  double* const partial = partials.data();
  parallel_for(blocks, rows * experts > kParallelElements, [=](int64_t block) {
    double* const to = partial + block * experts;
    for (int64_t r = block * kBlock; r < std::min((block + 1) * kBlock, rows); ++r) {
      const float* const s = scores + r * experts;
      const double inverse = 1 / static_cast<double>(std::max(row_sum(experts, s), kSmallestSum));
#pragma omp simd
      for (int64_t e = 0; e < experts; ++e) to[e] += inverse * static_cast<double>(s[e]);
    }
  });
  for (int64_t e = 0; e < experts; ++e) {
    double total = 0;
    for (int64_t block = 0; block < blocks; ++block) total += partial[block * experts + e];
    share[e] = static_cast<float>(total);
  }
}

void expert_share_backward(int64_t rows, int64_t experts, const float* scores, const float* dshare,
                           GradientOut dscores) {
  if (!dscores) return;
  parallel_for(rows, rows * experts > kParallelElements, [=](int64_t r) {
    const float* const s = scores + r * experts;
    const float* const weight = dshare;
    float* const to = dscores.data + r * experts;
    const float sum = row_sum(experts, s), inverse = 1.0F / std::max(sum, kSmallestSum);
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t e = 0; e < experts; ++e) dot += weight[e] * s[e];
    const float pull = sum < kSmallestSum ? 0.0F : dot * inverse;
    if (dscores.accumulate) {
#pragma omp simd
      for (int64_t e = 0; e < experts; ++e) to[e] += (weight[e] - pull) * inverse;
    } else {
#pragma omp simd
      for (int64_t e = 0; e < experts; ++e) to[e] = (weight[e] - pull) * inverse;
    }
  });
}

}  // namespace heddle::cpu
