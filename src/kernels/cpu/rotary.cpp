// Rotary positions: both halves of a head in one vector loop.
#include "kernels/cpu/operations.h"
#include "support/parallel.h"

namespace heddle::cpu {

void rotary(int64_t rows, int64_t heads, int64_t head_dim, const int32_t* position, const float* cosine,
            const float* sine, bool inverse, const float* x, float* y) {
  const int64_t half = head_dim / 2;
  const float sign = inverse ? -1.0F : 1.0F;
  parallel_for(rows, rows * heads * head_dim > kParallelElements, [=](int64_t r) {
    const float* const c = cosine + position[r] * half;
    const float* const s = sine + position[r] * half;
    for (int64_t h = 0; h < heads; ++h) {
      const float* const from = x + (r * heads + h) * head_dim;
      float* const to = y + (r * heads + h) * head_dim;
#pragma omp simd
      for (int64_t i = 0; i < half; ++i) {
        const float a = from[i], b = from[half + i], turn = sign * s[i];
        to[i] = a * c[i] - b * turn;
        to[half + i] = b * c[i] + a * turn;
      }
    }
  });
}

}  // namespace heddle::cpu
