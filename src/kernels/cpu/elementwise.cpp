// Linear combinations and the sum of squares.
#include <algorithm>
#include <vector>

#include "kernels/cpu/operations.h"
#include "kernels/cpu/parallel.h"

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
  const int64_t parts = (count + kStretch - 1) / kStretch;
  std::vector<double> partial(static_cast<size_t>(parts));
#pragma omp parallel for schedule(static) if (count > kParallelElements)
  for (int64_t part = 0; part < parts; ++part) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = part * kStretch; i < std::min((part + 1) * kStretch, count); ++i)
      sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    partial[static_cast<size_t>(part)] = sum;
  }
  double total = 0;
  for (const double sum : partial) total += sum;
  return total;
}

}  // namespace heddle::cpu
