// Linear combinations and the sum of squares.
#include <algorithm>
#include <vector>

#include "kernels/cpu/operations.h"
#include "support/narrow.h"
#include "support/parallel.h"

namespace heddle::cpu {

namespace {

double dot_stretch(int64_t count, const float* x, const float* y) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  return sum;
}

double dot(int64_t count, const float* x, const float* y) {
  // One partial sum per stretch, added in order: the thread count does not show.
  std::vector<double> partials(static_cast<size_t>(div_up(count, kStretch)));
  double* const partial = partials.data();
  for_each_stretch(count, [=](int64_t first, int64_t last) {
    partial[first / kStretch] = dot_stretch(last - first, x + first, y + first);
  });
  double total = 0;
  for (const double sum : partials) total += sum;
  return total;
}

}  // namespace

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

void fill_zero(int64_t count, float* x) {
  for_each_stretch(count, [=](int64_t begin, int64_t end) { std::fill(x + begin, x + end, 0.0F); });
}

double sum_of_squares(int64_t count, const float* x) {
  return dot(count, x, x);
}

void sums_of_squares(int64_t stretches, const Stretch* list, double* sums) {
  for (int64_t s = 0; s < stretches; ++s) sums[s] = sum_of_squares(list[s].count, list[s].data);
}

double sum_doubles(int64_t count, const double* x, bool squares) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += squares ? x[i] * x[i] : x[i];
  return sum;
}

void weighted_sum_forward(int64_t count, int64_t terms, const float* base, const float* weights, const ConstReals* xs,
                          float* out) {
  for_each_stretch(count, [=](int64_t begin, int64_t end) {
    if (base == nullptr) {
      std::fill(out + begin, out + end, 0.0F);
    } else if (base != out) {
      std::copy(base + begin, base + end, out + begin);
    }
    for (int64_t k = 0; k < terms; ++k) {  // the stretch of `out` stays in cache
      const float weight = weights[k];
      const float* const x = on_floats::plain(xs[k]);
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) out[i] += weight * x[i];
    }
  });
}

void weighted_term_backward(int64_t count, const float* weight, const float* x, const float* dout, GradientOut dx,
                            GradientOut dweight) {
  if (dx) {
    const float factor = *weight;
    for_each_stretch(count, [=](int64_t begin, int64_t end) {
      if (dx.accumulate) {
#pragma omp simd
        for (int64_t i = begin; i < end; ++i) dx.data[i] += factor * dout[i];
      } else {
#pragma omp simd
        for (int64_t i = begin; i < end; ++i) dx.data[i] = factor * dout[i];
      }
    });
  }
  if (!dweight) return;
  const double total = dot(count, dout, x) + (dweight.accumulate ? static_cast<double>(*dweight.data) : 0);
  *dweight.data = static_cast<float>(total);
}

}  // namespace heddle::cpu
