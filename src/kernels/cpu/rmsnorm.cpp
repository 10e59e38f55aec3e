// RMSNorm, one pass per row for the sum and one for the result while the row is in cache.
#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/cpu/operations.h"
#include "support/narrow.h"
#include "support/parallel.h"

namespace heddle::cpu {

namespace {

float row_square(int64_t width, const float* x) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t d = 0; d < width; ++d) sum += x[d] * x[d];
  return sum;
}

/// sum of gain * dy * x over a row.
float row_dot(int64_t width, const float* gain, const float* dy, const float* x) {
  float sum = 0;
  if (gain == nullptr) {
#pragma omp simd reduction(+ : sum)
    for (int64_t d = 0; d < width; ++d) sum += dy[d] * x[d];
  } else {
#pragma omp simd reduction(+ : sum)
    for (int64_t d = 0; d < width; ++d) sum += gain[d] * dy[d] * x[d];
  }
  return sum;
}

/// out = gain * dy * inverse - x * pull, or adds that.
template <bool kAccumulate>
void input_gradient(int64_t width, const float* x, const float* gain, const float* dy, float inverse, float pull,
                    float* out) {
  if (gain == nullptr) {
#pragma omp simd
    for (int64_t d = 0; d < width; ++d) {
      const float value = dy[d] * inverse - x[d] * pull;
      out[d] = kAccumulate ? out[d] + value : value;
    }
  } else {
#pragma omp simd
    for (int64_t d = 0; d < width; ++d) {
      const float value = gain[d] * dy[d] * inverse - x[d] * pull;
      out[d] = kAccumulate ? out[d] + value : value;
    }
  }
}

/// Rows are added in blocks of a fixed size, columns in stripes: the order does not depend on threads.
void gain_gradient(int64_t rows, int64_t width, const float* x, const float* inverse_rms, const float* dy,
                   GradientOut dgain) {
  constexpr int64_t kColumns = 64, kRows = 64;
  parallel_for(div_up(width, kColumns), rows * width > kParallelElements, [=](int64_t stripe) {
    const int64_t first = stripe * kColumns;
    const int64_t columns = std::min(kColumns, width - first);
    std::array<float, kColumns> total{};
    for (int64_t block = 0; block < rows; block += kRows) {
      std::array<float, kColumns> sum{};
      for (int64_t r = block; r < std::min(block + kRows, rows); ++r) {
        const float inverse = inverse_rms[r];
        const float* const dy_row = dy + r * width + first;
        const float* const x_row = x + r * width + first;
#pragma omp simd
        for (int64_t d = 0; d < columns; ++d) sum[static_cast<size_t>(d)] += dy_row[d] * x_row[d] * inverse;
      }
      for (size_t d = 0; d < kColumns; ++d) total[d] += sum[d];
    }
    for (int64_t d = 0; d < columns; ++d) {
      float& out = dgain.data[first + d];
      out = total[static_cast<size_t>(d)] + (dgain.accumulate ? out : 0.0F);
    }
  });
}

}  // namespace

void rmsnorm_forward(int64_t rows, int64_t width, float eps, const float* x, const float* gain, float* y,
                     float* inverse_rms) {
  parallel_for(rows, rows * width > kParallelElements, [=](int64_t r) {
    const float* const from = x + r * width;
    float* const to = y + r * width;
    const float inverse = 1.0F / std::sqrt(row_square(width, from) / static_cast<float>(width) + eps);
    inverse_rms[r] = inverse;
    if (gain == nullptr) {
#pragma omp simd
      for (int64_t d = 0; d < width; ++d) to[d] = from[d] * inverse;
    } else {
#pragma omp simd
      for (int64_t d = 0; d < width; ++d) to[d] = gain[d] * from[d] * inverse;
    }
  });
}

void rmsnorm_backward(int64_t rows, int64_t width, const float* x, const float* gain, const float* inverse_rms,
                      const float* dy, GradientOut dx, GradientOut dgain) {
  if (dx) {
    parallel_for(rows, rows * width > kParallelElements, [=](int64_t r) {
      const float* const x_row = x + r * width;
      const float* const dy_row = dy + r * width;
      const float inverse = inverse_rms[r];
      const float pull = row_dot(width, gain, dy_row, x_row) * inverse * inverse * inverse / static_cast<float>(width);
      float* const out = dx.data + r * width;
      if (dx.accumulate) {
        input_gradient<true>(width, x_row, gain, dy_row, inverse, pull, out);
      } else {
        input_gradient<false>(width, x_row, gain, dy_row, inverse, pull, out);
      }
    });
  }
  if (dgain) gain_gradient(rows, width, x, inverse_rms, dy, dgain);
}

}  // namespace heddle::cpu
