// Reference softmax and squared logsumexp.
#include <algorithm>
#include <cmath>

#include "kernels/ref/operations.h"

namespace heddle::ref {

namespace {
double log_sum_exp(int64_t width, const float* x) {
  const double largest = static_cast<double>(*std::max_element(x, x + width));
  double total = 0;
  for (int64_t i = 0; i < width; ++i) total += std::exp(static_cast<double>(x[i]) - largest);
  return largest + std::log(total);
}
}  // namespace

void softmax_forward(int64_t rows, int64_t width, const float* x, float* y) {
  for (int64_t r = 0; r < rows; ++r) {
    const double log_total = log_sum_exp(width, x + r * width);
    for (int64_t i = r * width; i < (r + 1) * width; ++i)
      y[i] = static_cast<float>(std::exp(static_cast<double>(x[i]) - log_total));
  }
}

void softmax_backward(int64_t rows, int64_t width, const float* y, const float* dy, GradientOut dx) {
  for (int64_t r = 0; r < rows; ++r) {
    double mean = 0;
    for (int64_t i = r * width; i < (r + 1) * width; ++i)
      mean += static_cast<double>(y[i]) * static_cast<double>(dy[i]);
    for (int64_t i = r * width; i < (r + 1) * width; ++i)
      put(dx, i, static_cast<double>(y[i]) * (static_cast<double>(dy[i]) - mean));
  }
}

void squared_log_sum_exp(int64_t rows, int64_t width, float gradient_scale, const float* x, double* square,
                         GradientOut dx) {
  for (int64_t r = 0; r < rows; ++r) {
    const double log_total = log_sum_exp(width, x + r * width);
    square[r] = log_total * log_total;
    for (int64_t i = r * width; i < (r + 1) * width; ++i)
      put(dx, i, static_cast<double>(gradient_scale) * 2 * log_total * std::exp(static_cast<double>(x[i]) - log_total));
  }
}

}  // namespace heddle::ref
