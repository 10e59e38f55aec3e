// Reference softmax cross-entropy.
#include <algorithm>
#include <cmath>

#include "kernels/ref/operations.h"

namespace heddle::ref {

void cross_entropy(int64_t rows, int64_t vocabulary, const int32_t* targets, float gradient_scale, bool want_gradient,
                   float* logits, double* loss) {
  for (int64_t r = 0; r < rows; ++r) {
    float* z = logits + r * vocabulary;
    const bool counts = targets[r] != kIgnoredTarget;
    const double largest = static_cast<double>(*std::max_element(z, z + vocabulary));
    double total = 0;
    for (int64_t v = 0; v < vocabulary; ++v) total += std::exp(static_cast<double>(z[v]) - largest);
    const double log_total = largest + std::log(total);
    loss[r] = counts ? log_total - static_cast<double>(z[targets[r]]) : 0;
    if (!want_gradient) continue;
    for (int64_t v = 0; v < vocabulary; ++v) {
      const double p = std::exp(static_cast<double>(z[v]) - log_total) - (v == targets[r] ? 1 : 0);
      z[v] = counts ? static_cast<float>(static_cast<double>(gradient_scale) * p) : 0.0F;
    }
  }
}

}  // namespace heddle::ref
