#include <cmath>

#include "kernels/ref/operations.h"

namespace heddle::ref {

namespace {

double dot(int64_t width, const float* a, const float* b) {
  double sum = 0;
  for (int64_t d = 0; d < width; ++d) sum += static_cast<double>(a[d]) * static_cast<double>(b[d]);
  return sum;
}

double total(int64_t count, const float* weights) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(weights[i]);
  return sum;
}

}  // namespace

void count_overlaps(int64_t rows, int64_t choices, const int32_t* a, const int32_t* b, int64_t* histogram) {
  for (int64_t row = 0; row < rows * choices; row += choices) {
    int64_t common = 0;
    for (int64_t i = row; i < row + choices; ++i)
      for (int64_t j = row; j < row + choices; ++j) common += a[i] == b[j];
    ++histogram[common];
  }
}

void count_fresh(int64_t visits, int64_t rows, int64_t choices, const int32_t* earlier, const int32_t* index,
                 int64_t* fresh) {
  for (int64_t slot = 0; slot < rows * choices; ++slot) {
    bool met = false;
    for (int64_t visit = 0; visit < visits; ++visit) {
      const int32_t* const row = earlier + (visit * rows + slot / choices) * choices;
      for (int64_t j = 0; j < choices; ++j) met = met || row[j] == index[slot];
    }
    *fresh += !met;
  }
}

void add_entropy(int64_t rows, int64_t width, const float* weights, double* sum) {
  double all = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const float* const w = weights + row * width;
    const double whole = total(width, w);
    for (int64_t e = 0; e < width; ++e) {
      const double p = static_cast<double>(w[e]) / whole;
      if (w[e] != 0) all -= p * std::log(p);
    }
  }
  *sum += all;
}

void add_weight_overlap(int64_t rows, int64_t choices, const int32_t* index_a, const float* weights_a,
                        const int32_t* index_b, const float* weights_b, double* sum) {
  double all = 0;
  for (int64_t row = 0; row < rows * choices; row += choices) {
    const double whole_a = total(choices, weights_a + row), whole_b = total(choices, weights_b + row);
    if (whole_a == 0 || whole_b == 0) continue;
    for (int64_t i = row; i < row + choices; ++i)
      for (int64_t j = row; j < row + choices; ++j)
        if (index_a[i] == index_b[j]) {
          const double p = static_cast<double>(weights_a[i]) / whole_a, q = static_cast<double>(weights_b[j]) / whole_b;
          all += (p + q - std::abs(p - q)) / 2;  // the smaller one; NaN if either is
        }
  }
  *sum += all;
}

void keep_maximum(int64_t count, const float* x, float* maximum) {
  for (int64_t i = 0; i < count; ++i)
    if (std::isnan(x[i]) || x[i] > *maximum) *maximum = x[i];  // nothing is above a NaN
}

void add_comparison(int64_t rows, int64_t width, const float* a, const float* b, double* sums) {
  for (int64_t row = 0; row < rows; ++row) {
    const float *const x = a + row * width, *const y = b + row * width;
    const double of_a = dot(width, x, x), of_b = dot(width, y, y);
    sums[0] += of_a;
    sums[1] += of_b;
    for (int64_t d = 0; d < width; ++d) {
      const double difference = static_cast<double>(x[d]) - static_cast<double>(y[d]);
      sums[2] += difference * difference;
    }
    if (of_a != 0 && of_b != 0) sums[3] += dot(width, x, y) / std::sqrt(of_a * of_b);
  }
}

void add_unit_rows(int64_t rows, int64_t width, const float* x, double* sum) {
  for (int64_t row = 0; row < rows; ++row) {
    const float* const from = x + row * width;
    const double norm = std::sqrt(dot(width, from, from));
    for (int64_t d = 0; d < width; ++d)
      if (norm != 0) sum[d] += static_cast<double>(from[d]) / norm;
  }
}

void add_doubles(int64_t count, const double* x, double* sum) {
  double all = 0;
  for (int64_t i = 0; i < count; ++i) all += x[i];
  *sum += all;
}

void add_squares(int64_t count, double scale, const float* x, double* sum) {
  *sum += scale * sum_of_squares(count, x);
}

void add_mean_squares(int64_t rows, double eps, const float* inverse_rms, double* sum) {
  double all = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const auto value = static_cast<double>(inverse_rms[row]);
    all += 1 / (value * value) - eps;
  }
  *sum += all;
}

}  // namespace heddle::ref
