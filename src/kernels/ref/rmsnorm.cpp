// Reference RMSNorm.
#include <cmath>

#include "kernels/ref/operations.h"

namespace heddle::ref {

void rmsnorm_forward(int64_t rows, int64_t width, float eps, const float* x, const float* gain, float* y,
                     float* inverse_rms) {
  for (int64_t r = 0; r < rows; ++r) {
    double square = 0;
    for (int64_t d = 0; d < width; ++d)
      square += static_cast<double>(x[r * width + d]) * static_cast<double>(x[r * width + d]);
    const double inverse = 1 / std::sqrt(square / static_cast<double>(width) + static_cast<double>(eps));
    inverse_rms[r] = static_cast<float>(inverse);
    for (int64_t d = 0; d < width; ++d) {
      const double g = gain == nullptr ? 1.0 : static_cast<double>(gain[d]);
      y[r * width + d] = static_cast<float>(g * static_cast<double>(x[r * width + d]) * inverse);
    }
  }
}

void rmsnorm_backward(int64_t rows, int64_t width, const float* x, const float* gain, const float* inverse_rms,
                      const float* dy, GradientOut dx, GradientOut dgain) {
  const auto at = [width](const float* values, int64_t r, int64_t d) {
    return static_cast<double>(values[r * width + d]);
  };
  const auto gain_of = [gain](int64_t d) { return gain == nullptr ? 1.0 : static_cast<double>(gain[d]); };
  for (int64_t r = 0; r < rows && dx; ++r) {
    const double inverse = static_cast<double>(inverse_rms[r]);
    double dot = 0;
    for (int64_t d = 0; d < width; ++d) dot += gain_of(d) * at(dy, r, d) * at(x, r, d);
    const double pull = dot * inverse * inverse * inverse / static_cast<double>(width);
    for (int64_t d = 0; d < width; ++d)
      put(dx, r * width + d, gain_of(d) * at(dy, r, d) * inverse - at(x, r, d) * pull);
  }
  for (int64_t d = 0; d < width && dgain; ++d) {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) sum += at(dy, r, d) * at(x, r, d) * static_cast<double>(inverse_rms[r]);
    put(dgain, d, sum);
  }
}

}  // namespace heddle::ref
