#include "kernels/ref/operations.h"

namespace heddle::ref {

void count_common(int64_t rows, int64_t choices, const int32_t* a, const int32_t* b, int64_t* total) {
  for (int64_t row = 0; row < rows * choices; row += choices)
    for (int64_t i = row; i < row + choices; ++i)
      for (int64_t j = row; j < row + choices; ++j) *total += a[i] == b[j];
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
