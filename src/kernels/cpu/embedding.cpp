// Embedding lookup by rows; the scatter-add splits the columns over threads, so every table row adds in token order.
#include <algorithm>

#include "kernels/cpu/operations.h"
#include "support/narrow.h"
#include "support/parallel.h"

namespace heddle::cpu {

void embedding_forward(int64_t rows, int64_t width, float scale, const int32_t* tokens, const float* table,
                       float* out) {
  parallel_for(rows, rows * width > kParallelElements, [=](int64_t r) {
    const float* const from = table + tokens[r] * width;
    float* const to = out + r * width;
#pragma omp simd
    for (int64_t d = 0; d < width; ++d) to[d] = scale * from[d];
  });
}

void embedding_backward(int64_t rows, int64_t width, int64_t vocabulary, float scale, const int32_t* tokens,
                        const float* dout, GradientOut dtable) {
  if (!dtable) return;
  if (!dtable.accumulate) {
    parallel_for(vocabulary, vocabulary * width > kParallelElements,
                 [=](int64_t v) { std::fill_n(dtable.data + v * width, width, 0.0F); });
  }
  constexpr int64_t kColumns = 64;
  parallel_for(div_up(width, kColumns), rows * width > kParallelElements, [=](int64_t stripe) {
    const int64_t first = stripe * kColumns, last = std::min(first + kColumns, width);
    for (int64_t r = 0; r < rows; ++r) {
      float* const to = dtable.data + tokens[r] * width;
      const float* const from = dout + r * width;
#pragma omp simd
      for (int64_t d = first; d < last; ++d) to[d] += scale * from[d];
    }
  });
}

}  // namespace heddle::cpu
