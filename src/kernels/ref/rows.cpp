// Reference moves of rows between token order and expert order.
#include "kernels/ref/operations.h"

namespace heddle::ref {

void gather_rows(int64_t count, int64_t width, const int64_t* row, const float* x, float* y) {
  for (int64_t i = 0; i < count; ++i)
    for (int64_t d = 0; d < width; ++d) y[i * width + d] = x[row[i] * width + d];
}

void sum_slots(int64_t rows, int64_t width, const int64_t* row_begin, const int64_t* slot, const float* weight,
               const float* y, bool accumulate, float* out) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t d = 0; d < width; ++d) {
      double sum = accumulate ? static_cast<double>(out[r * width + d]) : 0;
      for (int64_t e = row_begin[r]; e < row_begin[r + 1]; ++e)
        sum += (weight == nullptr ? 1.0 : static_cast<double>(weight[slot[e]])) *
               static_cast<double>(y[slot[e] * width + d]);
      out[r * width + d] = static_cast<float>(sum);
    }
  }
}

void sum_slots_backward(int64_t count, int64_t width, const int64_t* row, const float* weight, const float* y,
                        const float* dout, float* dy, float* dweight) {
  for (int64_t s = 0; s < count; ++s) {
    double dot = 0;
    for (int64_t d = 0; d < width; ++d) {
      const float gradient = dout[row[s] * width + d];
      dot += static_cast<double>(gradient) * static_cast<double>(y[s * width + d]);
      dy[s * width + d] = weight[s] * gradient;
    }
    dweight[s] = static_cast<float>(dot);
  }
}

void scatter(int64_t count, const int64_t* place, const float* x, float* y) {
  for (int64_t i = 0; i < count; ++i) y[place[i]] = x[i];
}

}  // namespace heddle::ref
