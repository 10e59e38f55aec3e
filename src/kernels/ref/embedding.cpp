// Reference embedding lookup and scatter-add.
#include <algorithm>

#include "kernels/ref/operations.h"

namespace heddle::ref {

void embedding_forward(int64_t rows, int64_t width, float scale, const int32_t* tokens, const float* table,
                       float* out) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t d = 0; d < width; ++d) out[r * width + d] = scale * table[tokens[r] * width + d];
}

void embedding_backward(int64_t rows, int64_t width, int64_t vocabulary, float scale, const int32_t* tokens,
                        const float* dout, GradientOut dtable) {
  if (!dtable) return;
  if (!dtable.accumulate) std::fill_n(dtable.data, vocabulary * width, 0.0F);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t d = 0; d < width; ++d) dtable.data[tokens[r] * width + d] += scale * dout[r * width + d];
}

}  // namespace heddle::ref
