// Linear combinations and the sum of squares.
#include <vector>

#include "kernels/cpu/operations.h"
#include "support/narrow.h"
#include "support/parallel.h"

namespace heddle::cpu {

void linear_combination(int64_t count, float alpha, const float* x, float beta, const float* y, float* out) {
  for_each_stretch(count, [=](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) out[i] = alpha * x[i] + beta * y[i];
  });
}

void scale(int64_t count, float alpha, const float* x, float* out) {
  for_each_stretch(count, [=](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) out[i] = alpha * x[i];
  });
}

double sum_of_squares(int64_t count, const float* x) {
  // One partial sum per stretch, added in order: the thread count does not show.
  std::vector<double> partials(static_cast<size_t>(div_up(count, kStretch)));
  double* const partial = partials.data();
  for_each_stretch(count, [=](int64_t first, int64_t last) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = first; i < last; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    partial[first / kStretch] = sum;
  });
  double total = 0;
  for (const double sum : partials) total += sum;
  return total;
}

}  // namespace heddle::cpu
