// Reference rotary positions and their table.
#include <cmath>

#include "kernels/ref/operations.h"

namespace heddle {

void fill_rotary_table(int64_t positions, int64_t head_dim, double theta, float* cosine, float* sine) {
  const int64_t half = head_dim / 2;
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(p) * std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
      cosine[p * half + i] = static_cast<float>(std::cos(angle));
      sine[p * half + i] = static_cast<float>(std::sin(angle));
    }
  }
}

namespace ref {

void rotary(int64_t rows, int64_t heads, int64_t head_dim, const int32_t* position, const float* cosine,
            const float* sine, bool inverse, const float* x, float* y) {
  const int64_t half = head_dim / 2;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t first = (r * heads + h) * head_dim;
      for (int64_t i = 0; i < half; ++i) {
        const float c = cosine[position[r] * half + i];
        const float s = inverse ? -sine[position[r] * half + i] : sine[position[r] * half + i];
        const float a = x[first + i], b = x[first + half + i];
        y[first + i] = a * c - b * s;
        y[first + half + i] = b * c + a * s;
      }
    }
  }
}

}  // namespace ref
}  // namespace heddle
