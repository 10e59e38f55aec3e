// Reference choice of experts and mixing weights.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/ref/operations.h"

namespace heddle::ref {

namespace {
constexpr double kSmallestSum = 1e-9;
}

void top_k(int64_t rows, int64_t experts, int64_t k, const float* scores, const float* bias, int32_t* index) {
  std::vector<int32_t> order(static_cast<size_t>(experts));
  for (int64_t r = 0; r < rows; ++r) {
    const auto value = [&](int32_t e) { return scores[r * experts + e] + (bias == nullptr ? 0.0F : bias[e]); };
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      if (std::isnan(value(a)) || std::isnan(value(b))) return !std::isnan(value(a)) && std::isnan(value(b));
      return value(a) > value(b);
    });
    std::copy_n(order.begin(), k, index + r * k);
  }
}

void route_weights_forward(int64_t rows, int64_t experts, int64_t k, bool renormalise, const float* scores,
                           const int32_t* index, const uint8_t* keep, float* weights) {
  for (int64_t r = 0; r < rows; ++r) {
    float* w = weights + r * k;
    double sum = 0;
    for (int64_t j = 0; j < k; ++j) {
      w[j] = scores[r * experts + index[r * k + j]];
      sum += static_cast<double>(w[j]);
    }
    if (!renormalise) sum = 1;
    for (int64_t j = 0; j < k; ++j) w[j] = static_cast<float>(static_cast<double>(w[j]) / std::max(sum, kSmallestSum));
    if (keep == nullptr) continue;
    double kept = 0;
    for (int64_t j = 0; j < k; ++j) {
      if (keep[r * k + j] == 0) w[j] = 0;
      kept += static_cast<double>(w[j]);
    }
    if (!renormalise) continue;
    for (int64_t j = 0; j < k; ++j) w[j] = static_cast<float>(static_cast<double>(w[j]) / std::max(kept, kSmallestSum));
  }
}

void route_weights_backward(int64_t rows, int64_t experts, int64_t k, bool renormalise, const float* scores,
                            const int32_t* index, const uint8_t* keep, const float* dweights, GradientOut dscores) {
  if (!dscores) return;
  if (!dscores.accumulate) std::fill_n(dscores.data, rows * experts, 0.0F);
  std::vector<double> w(static_cast<size_t>(k)), dw(static_cast<size_t>(k));
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int64_t j = 0; j < k; ++j) sum += static_cast<double>(scores[r * experts + index[r * k + j]]);
    const double divisor = renormalise ? std::max(sum, kSmallestSum) : 1;
    for (int64_t j = 0; j < k; ++j) {
      w[j] = static_cast<double>(scores[r * experts + index[r * k + j]]) / divisor;
      dw[j] = static_cast<double>(dweights[r * k + j]);
    }
    if (keep != nullptr) {  // out_j = keep_j w_j / kept
      double kept = 0, pull = 0;
      for (int64_t j = 0; j < k; ++j) kept += keep[r * k + j] != 0 ? w[j] : 0;
      const double bounded = renormalise ? std::max(kept, kSmallestSum) : 1;
      for (int64_t j = 0; j < k; ++j) pull += keep[r * k + j] != 0 ? dw[j] * w[j] / (bounded * bounded) : 0;
      if (!renormalise || kept < kSmallestSum) pull = 0;
      for (int64_t j = 0; j < k; ++j) dw[j] = keep[r * k + j] != 0 ? dw[j] / bounded - pull : 0;
    }
    double pull = 0;  // w_j = s_j / sum
    if (renormalise && sum >= kSmallestSum)
      for (int64_t j = 0; j < k; ++j) pull += dw[j] * w[j] / divisor;
    for (int64_t j = 0; j < k; ++j)
      dscores.data[r * experts + index[r * k + j]] += static_cast<float>(dw[j] / divisor - pull);
  }
}

void expert_share_forward(int64_t rows, int64_t experts, const float* scores, float* share) {
  std::vector<double> total(static_cast<size_t>(experts), 0);
  for (int64_t r = 0; r < rows; ++r) {
    const float* const s = scores + r * experts;
    const double sum = std::max(std::accumulate(s, s + experts, 0.0), kSmallestSum);
    for (int64_t e = 0; e < experts; ++e) total[static_cast<size_t>(e)] += static_cast<double>(s[e]) / sum;
  }
  for (int64_t e = 0; e < experts; ++e) share[e] = static_cast<float>(total[static_cast<size_t>(e)]);
}

void expert_share_backward(int64_t rows, int64_t experts, const float* scores, const float* dshare,
                           GradientOut dscores) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* const s = scores + r * experts;
    const double sum = std::accumulate(s, s + experts, 0.0), divisor = std::max(sum, kSmallestSum);
    double pull = 0;
    for (int64_t e = 0; e < experts && sum >= kSmallestSum; ++e)
      pull += static_cast<double>(dshare[e]) * static_cast<double>(s[e]) / divisor;
    for (int64_t e = 0; e < experts; ++e)
      put(dscores, r * experts + e, (static_cast<double>(dshare[e]) - pull) / divisor);
  }
}

}  // namespace heddle::ref
