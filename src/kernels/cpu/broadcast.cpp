// Rows and modulations, one pass over the rows.
#include "kernels/cpu/columns.h"
#include "kernels/cpu/operations.h"
#include "support/parallel.h"

namespace heddle::cpu {

namespace {

/// One row; out = ..., or out += ....
template <bool kAccumulate>
void modulate_input_gradient(int64_t width, const float* s, const float* dout, float* dx) {
#pragma omp simd
  for (int64_t d = 0; d < width; ++d) {
    const float value = (1.0F + s[d]) * dout[d];
    dx[d] = kAccumulate ? dx[d] + value : value;
  }
}

template <bool kAccumulate>
void modulation_gradient(int64_t width, const float* x, const float* dout, float* ds, float* db) {
#pragma omp simd
  for (int64_t d = 0; d < width; ++d) {
    const float value = x[d] * dout[d];
    ds[d] = kAccumulate ? ds[d] + value : value;
    db[d] = kAccumulate ? db[d] + dout[d] : dout[d];
  }
}

}  // namespace

void add_row(int64_t rows, int64_t width, const float* x, const float* row, float* out) {
  parallel_for(rows, rows * width > kParallelElements, [=](int64_t r) {
    const float* const from = x + r * width;
    float* const to = out + r * width;
#pragma omp simd
    for (int64_t d = 0; d < width; ++d) to[d] = from[d] + row[d];
  });
}

void sum_rows(int64_t rows, int64_t width, const float* x, GradientOut sum) {
  if (!sum) return;
  sum_columns<1>(
      rows, width,
      [=](int64_t r, int64_t first, int64_t columns, std::array<Stripe<float>, 1>& sums) {
        const float* const from = x + r * width + first;
        float* const to = sums[0].data();
#pragma omp simd
        for (int64_t d = 0; d < columns; ++d) to[d] += from[d];
      },
      [=](int64_t d, const std::array<double, 1>& total) { put(sum, d, total[0]); });
}

void modulate_forward(int64_t rows, int64_t width, const float* x, const float* modulation, float* out) {
  parallel_for(rows, rows * width > kParallelElements, [=](int64_t r) {
    const float* const from = x + r * width;
    const float* const s = modulation + 2 * r * width;
    const float* const b = s + width;
    float* const to = out + r * width;
#pragma omp simd
    for (int64_t d = 0; d < width; ++d) to[d] = (1.0F + s[d]) * from[d] + b[d];
  });
}

void modulate_backward(int64_t rows, int64_t width, const float* x, const float* modulation, const float* dout,
                       GradientOut dx, GradientOut dmodulation) {
  parallel_for(rows, rows * width > kParallelElements, [=](int64_t r) {
    const float* const gradient = dout + r * width;
    if (dx) {
      const auto input = dx.accumulate ? modulate_input_gradient<true> : modulate_input_gradient<false>;
      input(width, modulation + 2 * r * width, gradient, dx.data + r * width);
    }
    if (dmodulation) {
      const auto factors = dmodulation.accumulate ? modulation_gradient<true> : modulation_gradient<false>;
      float* const ds = dmodulation.data + 2 * r * width;
      factors(width, x + r * width, gradient, ds, ds + width);
    }
  });
}

}  // namespace heddle::cpu
