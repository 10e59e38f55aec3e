// Moves of rows between token order and expert order: each destination row is written once.
#include <algorithm>

#include "kernels/cpu/operations.h"
#include "kernels/cpu/parallel.h"

namespace heddle::cpu {

void gather_rows(int64_t count, int64_t width, const int64_t* row, const float* x, float* y) {
#pragma omp parallel for schedule(static) if (count * width > kParallelElements)
  for (int64_t i = 0; i < count; ++i) std::copy_n(x + row[i] * width, width, y + i * width);
}

void sum_slots(int64_t rows, int64_t width, const int64_t* row_begin, const int64_t* slot, const float* weight,
               const float* y, bool accumulate, float* out) {
#pragma omp parallel for schedule(static) if (rows * width > kParallelElements)
  for (int64_t r = 0; r < rows; ++r) {
    float* const to = out + r * width;
    int64_t e = row_begin[r];
    const int64_t end = row_begin[r + 1];
    if (!accumulate) {
      if (e == end) {
        std::fill_n(to, width, 0.0F);
        continue;
      }
      const float w = weight == nullptr ? 1.0F : weight[slot[e]];
      const float* const from = y + slot[e] * width;
#pragma omp simd
      for (int64_t d = 0; d < width; ++d) to[d] = w * from[d];
      ++e;
    }
    for (; e < end; ++e) {
      const float w = weight == nullptr ? 1.0F : weight[slot[e]];
      const float* const from = y + slot[e] * width;
#pragma omp simd
      for (int64_t d = 0; d < width; ++d) to[d] += w * from[d];
    }
  }
}

void sum_slots_backward(int64_t count, int64_t width, const int64_t* row, const float* weight, const float* y,
                        const float* dout, float* dy, float* dweight) {
#pragma omp parallel for schedule(static) if (count * width > kParallelElements)
  for (int64_t s = 0; s < count; ++s) {
    const float* const gradient = dout + row[s] * width;
    const float* const value = y + s * width;
    float* const to = dy + s * width;
    const float w = weight[s];
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t d = 0; d < width; ++d) {
      dot += gradient[d] * value[d];
      to[d] = w * gradient[d];
    }
    dweight[s] = dot;
  }
}

}  // namespace heddle::cpu
