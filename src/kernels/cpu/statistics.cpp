// Sums for statistics: rows in blocks of a fixed size, whose sums are added in order. The thread count does not show.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/operations.h"
#include "kernels/cpu/vector_math.h"
#include "support/narrow.h"
#include "support/parallel.h"

namespace heddle::cpu {

namespace {

/// totals += what add(row, sums) adds to std::array<Number, kSums> over all rows, `work` elements each.
template <size_t kSums, typename Number, typename Add>
void add_rows(int64_t rows, int64_t work, Number* totals, Add add) {
  constexpr int64_t kRows = 64;
  std::vector<std::array<Number, kSums>> partials(static_cast<size_t>(div_up(rows, kRows)));
  auto* const of_blocks = partials.data();
  parallel_for(div_up(rows, kRows), rows * work > kParallelElements, [=](int64_t block) {
    std::array<Number, kSums> sums{};
    for (int64_t row = block * kRows; row < std::min((block + 1) * kRows, rows); ++row) add(row, sums);
    of_blocks[block] = sums;
  });
  for (const auto& sums : partials)
    for (size_t s = 0; s < kSums; ++s) totals[s] += sums[s];
}

double sum_row(int64_t count, const float* x) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]);
  return sum;
}

double row_square(int64_t count, const float* x) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

bool contains(int64_t choices, const int32_t* row, int32_t expert) {
  int found = 0;
#pragma omp simd reduction(| : found)
  for (int64_t j = 0; j < choices; ++j) found |= row[j] == expert;
  return found != 0;
}

}  // namespace

void count_fresh(int64_t visits, int64_t rows, int64_t choices, const int32_t* earlier, const int32_t* index,
                 int64_t* fresh) {
  add_rows<1>(rows, choices * choices * visits, fresh, [=](int64_t row, std::array<int64_t, 1>& count) {
    for (int64_t i = row * choices; i < (row + 1) * choices; ++i) {
      bool met = false;
      for (int64_t visit = 0; visit < visits && !met; ++visit)
        met = contains(choices, earlier + (visit * rows + row) * choices, index[i]);
      count[0] += !met;
    }
  });
}

void add_entropy(int64_t rows, int64_t width, const float* weights, double* sum) {
  constexpr int64_t kWorkOfLogarithm = 4;
  add_rows<1>(rows, width * kWorkOfLogarithm, sum, [=](int64_t row, std::array<double, 1>& entropy) {
    const float* const w = weights + row * width;
    const double whole = sum_row(width, w);
    if (whole == 0) return;
    double of_row = 0;
#pragma omp simd reduction(+ : of_row)
    for (int64_t e = 0; e < width; ++e) {
      const double p = static_cast<double>(w[e]) / whole;
      of_row -= p * vector_log(p);  // 0 at p = 0
    }
    entropy[0] += of_row;
  });
}

void keep_maximum(int64_t count, const float* x, float* maximum) {
  const auto key = [](float value) {
    return value != value ? std::numeric_limits<int32_t>::max() : sort_key(value);  // the key of a NaN
  };
  std::vector<int32_t> keys(static_cast<size_t>(div_up(count, kStretch)));
  int32_t* const of_stretches = keys.data();
  for_each_stretch(count, [=](int64_t first, int64_t last) {
    int32_t largest = std::numeric_limits<int32_t>::min();
#pragma omp simd reduction(max : largest)
    for (int64_t i = first; i < last; ++i) largest = std::max(largest, key(x[i]));
    of_stretches[first / kStretch] = largest;
  });
  int32_t largest = key(*maximum);
  for (const int32_t of_stretch : keys) largest = std::max(largest, of_stretch);
  *maximum = std::bit_cast<float>(largest ^ ((largest >> 31) & std::numeric_limits<int32_t>::max()));
}

void add_comparison(int64_t rows, int64_t width, const float* a, const float* b, double* sums) {
  add_rows<4>(rows, width, sums, [=](int64_t row, std::array<double, 4>& total) {
    const float *const row_a = a + row * width, *const row_b = b + row * width;
    double of_a = 0, of_b = 0, difference = 0, product = 0;
#pragma omp simd reduction(+ : of_a, of_b, difference, product)
    for (int64_t d = 0; d < width; ++d) {
      const auto x = static_cast<double>(row_a[d]), y = static_cast<double>(row_b[d]);
      of_a += x * x;
      of_b += y * y;
      difference += (x - y) * (x - y);
      product += x * y;
    }
    total[0] += of_a;
    total[1] += of_b;
    total[2] += difference;
    if (of_a != 0 && of_b != 0) total[3] += product / std::sqrt(of_a * of_b);
  });
}

void add_unit_rows(int64_t rows, int64_t width, const float* x, double* sum) {
  constexpr int64_t kMostParts = 64, kLeastRows = 32;
  const int64_t rows_of_part = std::max(div_up(rows, kMostParts), kLeastRows), parts = div_up(rows, rows_of_part);
  std::vector<double> partials(static_cast<size_t>(parts * width));
  double* const of_parts = partials.data();
  parallel_for(parts, rows * width > kParallelElements, [=](int64_t part) {
    double* const to = of_parts + part * width;
    for (int64_t r = part * rows_of_part; r < std::min((part + 1) * rows_of_part, rows); ++r) {
      const float* const row = x + r * width;
      const double square = row_square(width, row);
      if (square == 0) continue;
      const double inverse = 1 / std::sqrt(square);
#pragma omp simd
      for (int64_t d = 0; d < width; ++d) to[d] += static_cast<double>(row[d]) * inverse;
    }
  });
  for (int64_t part = 0; part < parts; ++part) {
    const double* const from = of_parts + part * width;
#pragma omp simd
    for (int64_t d = 0; d < width; ++d) sum[d] += from[d];
  }
}

void add_squares(int64_t count, double scale, const float* x, double* sum) {
  *sum += scale * sum_of_squares(count, x);
}

}  // namespace heddle::cpu
