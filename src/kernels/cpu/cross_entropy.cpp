// Softmax cross-entropy: a pass for the maximum, one for exponentials and their sum, one for the gradient, row by row.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/operations.h"
#include "kernels/cpu/vector_math.h"
#include "support/parallel.h"

namespace heddle::cpu {

namespace {

/// Sum of exp(z - largest), and with kKeep z becomes its terms.
template <bool kKeep>
double sum_exponentials(int64_t count, float largest, float* z) {
  // Sums over stretches in double: float alone loses digits at a vocabulary of 50,000.
  double total = 0;
  for (int64_t first = 0; first < count; first += kStretch) {
    const int64_t last = std::min(first + kStretch, count);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t v = first; v < last; ++v) {
      const float term = vector_exp(z[v] - largest);
      sum += term;
      if constexpr (kKeep) z[v] = term;
    }
    total += static_cast<double>(sum);
  }
  return total;
}

void cap_row(int64_t count, float cap, const float* x, float* y) {
  const float inverse = 1.0F / cap;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = cap * vector_tanh(x[i] * inverse);
}

}  // namespace

void soft_cap(int64_t count, float cap, const float* x, float* y) {
  for_each_stretch(count, [=](int64_t first, int64_t last) { cap_row(last - first, cap, x + first, y + first); });
}

void cross_entropy(int64_t rows, int64_t vocabulary, const int32_t* targets, const CrossEntropyOptions& options,
                   float* logits, float* gradient, double* loss, double* log_total) {
  parallel_for(rows, rows * vocabulary > kParallelElements, [=](int64_t r) {
    const bool want_gradient = gradient != nullptr;
    float* z = logits + r * vocabulary;
    if (gradient != nullptr && gradient != logits)
      z = std::copy_n(z, vocabulary, gradient + r * vocabulary) - vocabulary;
    const bool capped = options.soft_cap > 0;
    if (targets[r] == kIgnoredTarget) {
      loss[r] = log_total[r] = 0;
      if (want_gradient)
        std::fill_n(z, vocabulary, 0.0F);
      else if (capped)
        cap_row(vocabulary, options.soft_cap, z, z);
      return;
    }
    if (capped) cap_row(vocabulary, options.soft_cap, z, z);
    const float target_logit = z[targets[r]];
    const float largest = vector_max(vocabulary, z);
    // The way back through the cap reads the capped logits, so they may not become exponentials.
    const double total = want_gradient && !capped ? sum_exponentials<true>(vocabulary, largest, z)
                                                  : sum_exponentials<false>(vocabulary, largest, z);
    log_total[r] = static_cast<double>(largest) + std::log(total);
    loss[r] = log_total[r] - static_cast<double>(target_logit);
    if (!want_gradient) return;
    const double scale = static_cast<double>(options.gradient_scale);
    const auto factor =
        static_cast<float>(scale * (1 + 2 * static_cast<double>(options.z_weight) * log_total[r]) / total);
    if (!capped) {
#pragma omp simd
      for (int64_t v = 0; v < vocabulary; ++v) z[v] *= factor;
      z[targets[r]] -= options.gradient_scale;
      return;
    }
    const float inverse = 1.0F / options.soft_cap;
#pragma omp simd
    for (int64_t v = 0; v < vocabulary; ++v) {
      const float part = z[v] * inverse;
      z[v] = factor * vector_exp(z[v] - largest) * (1.0F - part * part);
    }
    const float part = target_logit * inverse;
    z[targets[r]] -= options.gradient_scale * (1.0F - part * part);
  });
}

}  // namespace heddle::cpu
