// Softmax and squared logsumexp, row by row while the row is in cache.
#include <cmath>

#include "kernels/cpu/operations.h"
#include "kernels/cpu/vector_math.h"
#include "support/parallel.h"

namespace heddle::cpu {

void softmax_forward(int64_t rows, int64_t width, const float* x, float* y) {
  parallel_for(rows, rows * width > kParallelElements, [=](int64_t r) {
    const float* const from = x + r * width;
    float* const to = y + r * width;
    const float largest = vector_max(width, from);
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < width; ++i) total += to[i] = vector_exp(from[i] - largest);
    const float inverse = 1.0F / total;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) to[i] *= inverse;
  });
}

void softmax_backward(int64_t rows, int64_t width, const float* y, const float* dy, GradientOut dx) {
  if (!dx) return;
  parallel_for(rows, rows * width > kParallelElements, [=](int64_t r) {
    const float* const y_row = y + r * width;
    const float* const dy_row = dy + r * width;
    float* const to = dx.data + r * width;
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < width; ++i) dot += y_row[i] * dy_row[i];
    if (dx.accumulate) {
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) to[i] += y_row[i] * (dy_row[i] - dot);
    } else {
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) to[i] = y_row[i] * (dy_row[i] - dot);
    }
  });
}

void squared_log_sum_exp(int64_t rows, int64_t width, float gradient_scale, const float* x, double* square,
                         GradientOut dx) {
  parallel_for(rows, rows * width > kParallelElements, [=](int64_t r) {
    const float* const from = x + r * width;
    const float largest = vector_max(width, from);
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < width; ++i) total += vector_exp(from[i] - largest);
    const double log_total = static_cast<double>(largest) + std::log(static_cast<double>(total));
    square[r] = log_total * log_total;
    if (!dx) return;
    const auto factor =
        static_cast<float>(2 * static_cast<double>(gradient_scale) * log_total / static_cast<double>(total));
    float* const to = dx.data + r * width;
    if (dx.accumulate) {
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) to[i] += factor * vector_exp(from[i] - largest);
    } else {
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) to[i] = factor * vector_exp(from[i] - largest);
    }
  });
}

}  // namespace heddle::cpu
