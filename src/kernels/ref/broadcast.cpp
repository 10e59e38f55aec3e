// Reference rows and modulations.
#include "kernels/ref/operations.h"

namespace heddle::ref {

void add_row(int64_t rows, int64_t width, const float* x, const float* row, float* out) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t d = 0; d < width; ++d) out[r * width + d] = x[r * width + d] + row[d];
}

void sum_rows(int64_t rows, int64_t width, const float* x, GradientOut sum) {
  for (int64_t d = 0; d < width; ++d) {
    double total = 0;
    for (int64_t r = 0; r < rows; ++r) total += static_cast<double>(x[r * width + d]);
    put(sum, d, total);
  }
}

void modulate_forward(int64_t rows, int64_t width, const float* x, const float* modulation, float* out) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* const s = modulation + 2 * r * width;
    for (int64_t d = 0; d < width; ++d) out[r * width + d] = (1 + s[d]) * x[r * width + d] + s[width + d];
  }
}

void modulate_backward(int64_t rows, int64_t width, const float* x, const float* modulation, const float* dout,
                       GradientOut dx, GradientOut dmodulation) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t d = 0; d < width; ++d) {
      const int64_t i = r * width + d, s = 2 * r * width + d;
      const double gradient = static_cast<double>(dout[i]);
      put(dx, i, (1 + static_cast<double>(modulation[s])) * gradient);
      put(dmodulation, s, static_cast<double>(x[i]) * gradient);
      put(dmodulation, s + width, gradient);
    }
  }
}

}  // namespace heddle::ref
