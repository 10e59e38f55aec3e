// Moves of rows between token order and expert order: each destination row is written once.
#include <algorithm>

#include "kernels/cpu/operations.h"
#include "support/parallel.h"

namespace heddle::cpu {

void gather_rows(int64_t count, int64_t width, const int64_t* row, const float* x, float* y) {
  parallel_for(count, count * width > kParallelElements,
               [=](int64_t i) { std::copy_n(x + row[i] * width, width, y + i * width); });
}

void sum_slots(int64_t rows, int64_t width, const int64_t* row_begin, const int64_t* slot, const float* weight,
               const float* y, bool accumulate, float* out) {
  parallel_for(rows, rows * width > kParallelElements, [=](int64_t r) {
    float* const to = out + r * width;
    int64_t e = row_begin[r];
    const int64_t end = row_begin[r + 1];
    if (!accumulate) {
      if (e == end) {
        std::fill_n(to, width, 0.0F);
        return;
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
  });
}

void sum_slots_backward(int64_t count, int64_t width, const int64_t* row, const float* weight, const float* y,
                        const float* dout, float* dy, float* dweight) {
  parallel_for(count, count * width > kParallelElements, [=](int64_t s) {
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
  });
}

void scatter(int64_t count, const int64_t* place, const float* x, float* y) {
  for (int64_t i = 0; i < count; ++i) y[place[i]] = x[i];
}

}  // namespace heddle::cpu
