// What Muon does to a matrix: rows over threads, columns in stripes.
#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/cpu/operations.h"
#include "support/narrow.h"
#include "support/parallel.h"

namespace heddle::cpu {

namespace {

double row_square(int64_t columns, const float* x) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < columns; ++j) sum += static_cast<double>(x[j]) * static_cast<double>(x[j]);
  return sum;
}

void scale_row(int64_t columns, float factor, float* x) {
#pragma omp simd
  for (int64_t j = 0; j < columns; ++j) x[j] *= factor;
}

/// Means over the rows, for stripes of columns: the order does not depend on threads.
void mean_squares_of_columns(int64_t rows, int64_t columns, const float* x, float* mean_square) {
  constexpr int64_t kColumns = 64;
  parallel_for(div_up(columns, kColumns), rows * columns > kParallelElements, [=](int64_t stripe) {
    const int64_t first = stripe * kColumns, width = std::min(kColumns, columns - first);
    std::array<double, kColumns> sums{};
    double* const sum = sums.data();
    for (int64_t i = 0; i < rows; ++i) {
      const float* const row = x + i * columns + first;
#pragma omp simd
      for (int64_t j = 0; j < width; ++j) sum[j] += static_cast<double>(row[j]) * static_cast<double>(row[j]);
    }
    for (int64_t j = 0; j < width; ++j) mean_square[first + j] = static_cast<float>(sum[j] / static_cast<double>(rows));
  });
}

float inverse_root(float second) {
  return 1.0F / std::sqrt(std::max(second, 1e-10F));
}

/// The update of one row; kCautious decides which elements decay.
template <bool kCautious>
void update_row(int64_t columns, const MuonCoefficients& c, const float* x, float* parameter) {
  const float rate = c.rate, keep = 1.0F - c.rate * c.weight_decay;
#pragma omp simd
  for (int64_t j = 0; j < columns; ++j) {
    const float p = parameter[j];
    const float kept = kCautious ? (x[j] * p >= 0 ? p * keep : p) : p * keep;
    parameter[j] = kept - rate * x[j];
  }
}

}  // namespace

void copy_matrix(int64_t rows, int64_t columns, const float* from, int64_t from_leading, float* to,
                 int64_t to_leading) {
  parallel_for(rows, rows * columns > kParallelElements, [=](int64_t i) {
    std::copy_n(from + i * from_leading, static_cast<size_t>(columns), to + i * to_leading);
  });
}

void normalise_rows(int64_t rows, int64_t columns, float floor, float* x) {
  parallel_for(rows, rows * columns > kParallelElements, [=](int64_t i) {
    const double norm = std::sqrt(row_square(columns, x + i * columns));
    scale_row(columns, static_cast<float>(1 / std::max(norm, static_cast<double>(floor))), x + i * columns);
  });
}

void reduce_variance(int64_t rows, int64_t columns, float beta2, float* x, float* second, float* mean_square) {
  if (rows == 0 || columns == 0) return;
  const bool by_row = rows >= columns, worthwhile = rows * columns > kParallelElements;
  if (by_row) {
    parallel_for(rows, worthwhile, [=](int64_t i) {
      mean_square[i] = static_cast<float>(row_square(columns, x + i * columns) / static_cast<double>(columns));
    });
  } else {
    mean_squares_of_columns(rows, columns, x, mean_square);
  }
  const int64_t kept = by_row ? rows : columns;
  double before = 0, after = 0;  // sums of squares over the number averaged
  for (int64_t i = 0; i < kept; ++i) {
    second[i] = beta2 * second[i] + (1.0F - beta2) * mean_square[i];
    const double s = static_cast<double>(inverse_root(second[i])), v = static_cast<double>(mean_square[i]);
    before += v;
    after += v * s * s;
  }
  const double averaged = static_cast<double>(by_row ? columns : rows);
  const auto keep = static_cast<float>(std::sqrt(averaged * before) / std::max(std::sqrt(averaged * after), 1e-10));
  parallel_for(rows, worthwhile, [=](int64_t i) {
    float* const row = x + i * columns;
    if (by_row) {
      scale_row(columns, keep * inverse_root(second[i]), row);
      return;
    }
#pragma omp simd
    for (int64_t j = 0; j < columns; ++j) row[j] *= keep * inverse_root(second[j]);
  });
}

void muon_update(int64_t rows, int64_t columns, const MuonCoefficients& c, const float* x, float* parameter,
                 int64_t leading) {
  parallel_for(rows, rows * columns > kParallelElements, [=](int64_t i) {
    if (c.cautious)
      update_row<true>(columns, c, x + i * columns, parameter + i * leading);
    else
      update_row<false>(columns, c, x + i * columns, parameter + i * leading);
  });
}

}  // namespace heddle::cpu
