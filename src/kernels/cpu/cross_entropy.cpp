// Softmax cross-entropy: a pass for the maximum, one for exponentials and their sum, one for the gradient, row by row.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/operations.h"
#include "kernels/cpu/vector_math.h"
#include "support/parallel.h"

namespace heddle::cpu {

void cross_entropy(int64_t rows, int64_t vocabulary, const int32_t* targets, float gradient_scale, bool want_gradient,
                   float* logits, double* loss) {
  parallel_for(rows, rows * vocabulary > kParallelElements, [=](int64_t r) {
    float* const z = logits + r * vocabulary;
    if (targets[r] == kIgnoredTarget) {
      loss[r] = 0;
      if (want_gradient) std::fill_n(z, vocabulary, 0.0F);
      return;
    }
    const double target_logit = static_cast<double>(z[targets[r]]);
    const float largest = vector_max(vocabulary, z);
    // Sums over stretches in double: float alone loses digits at a vocabulary of 50,000.
    double total = 0;
    for (int64_t first = 0; first < vocabulary; first += kStretch) {
      const int64_t last = std::min(first + kStretch, vocabulary);
      float sum = 0;
      if (want_gradient) {
#pragma omp simd reduction(+ : sum)
        for (int64_t v = first; v < last; ++v) sum += z[v] = vector_exp(z[v] - largest);
      } else {
#pragma omp simd reduction(+ : sum)
        for (int64_t v = first; v < last; ++v) sum += vector_exp(z[v] - largest);
      }
      total += static_cast<double>(sum);
    }
    loss[r] = static_cast<double>(largest) + std::log(total) - target_logit;
    if (!want_gradient) return;
    const auto factor = static_cast<float>(static_cast<double>(gradient_scale) / total);
#pragma omp simd
    for (int64_t v = 0; v < vocabulary; ++v) z[v] *= factor;
    z[targets[r]] -= gradient_scale;
  });
}

}  // namespace heddle::cpu
