// Reference softmax cross-entropy.
#include <algorithm>
#include <cmath>

#include "kernels/ref/operations.h"

namespace heddle::ref {

void soft_cap(int64_t count, float cap, const float* x, float* y) {
  const double c = static_cast<double>(cap);
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(c * std::tanh(static_cast<double>(x[i]) / c));
}

void cross_entropy(int64_t rows, int64_t vocabulary, const int32_t* targets, const CrossEntropyOptions& o,
                   float* logits, float* gradient, double* loss, double* log_total) {
  for (int64_t r = 0; r < rows; ++r) {
    float* z = logits + r * vocabulary;
    const bool counts = targets[r] != kIgnoredTarget;
    if (o.soft_cap > 0) soft_cap(vocabulary, o.soft_cap, z, z);
    const double largest = static_cast<double>(*std::max_element(z, z + vocabulary));
    double total = 0;
    for (int64_t v = 0; v < vocabulary; ++v) total += std::exp(static_cast<double>(z[v]) - largest);
    const double log_sum = largest + std::log(total);
    loss[r] = counts ? log_sum - static_cast<double>(z[targets[r]]) : 0;
    log_total[r] = counts ? log_sum : 0;
    if (gradient == nullptr) continue;
    float* const g = gradient + r * vocabulary;
    for (int64_t v = 0; v < vocabulary; ++v) {
      const double logit = static_cast<double>(z[v]), p = std::exp(logit - log_sum);
      const double pull = (1 + 2 * static_cast<double>(o.z_weight) * log_sum) * p - (v == targets[r] ? 1 : 0);
      const double capped = o.soft_cap > 0 ? logit / static_cast<double>(o.soft_cap) : 0;
      g[v] = counts ? static_cast<float>(static_cast<double>(o.gradient_scale) * pull * (1 - capped * capped)) : 0.0F;
    }
  }
}

}  // namespace heddle::ref
