// Matrix products on oneDNN.
#include <dnnl.h>

#include <algorithm>

#include "kernels/cpu/operations.h"
#include "support/error.h"

namespace heddle::cpu {

void matmul(Transpose a_transpose, Transpose b_transpose, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
            int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  if (m == 0 || n == 0) return;
  if (k == 0) {  // oneDNN reports success and leaves C as it is
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) c[i * ldc + j] = beta == 0 ? 0.0F : beta * c[i * ldc + j];
    return;
  }
  const dnnl_status_t status =
      dnnl_sgemm(a_transpose == Transpose::kYes ? 'T' : 'N', b_transpose == Transpose::kYes ? 'T' : 'N', m, n, k, alpha,
                 a, lda, b, ldb, beta, c, ldc);
  if (status != dnnl_success)
    fail("oneDNN product of {} x {} x {} failed with status {}", m, n, k, static_cast<int>(status));
}

void grouped_matmul_forward(int64_t groups, const int64_t* offsets, int64_t n, int64_t k, const float* x,
                            const float* w, float* y) {
  for (int64_t g = 0; g < groups; ++g)
    matmul(Transpose::kNo, Transpose::kYes, offsets[g + 1] - offsets[g], n, k, 1, x + offsets[g] * k, k, w + g * n * k,
           k, 0, y + offsets[g] * n, n);
}

void grouped_matmul_input_gradient(int64_t groups, const int64_t* offsets, int64_t n, int64_t k, const float* dy,
                                   const float* w, bool accumulate, float* dx) {
  for (int64_t g = 0; g < groups; ++g)
    matmul(Transpose::kNo, Transpose::kNo, offsets[g + 1] - offsets[g], k, n, 1, dy + offsets[g] * n, n, w + g * n * k,
           k, accumulate ? 1.0F : 0.0F, dx + offsets[g] * k, k);
}

void grouped_matmul_weight_gradient(int64_t groups, const int64_t* offsets, int64_t n, int64_t k, const float* dy,
                                    const float* x, bool accumulate, float* dw) {
  for (int64_t g = 0; g < groups; ++g)
    matmul(Transpose::kYes, Transpose::kNo, n, k, offsets[g + 1] - offsets[g], 1, dy + offsets[g] * n, n,
           x + offsets[g] * k, k, accumulate ? 1.0F : 0.0F, dw + g * n * k, k);
}

}  // namespace heddle::cpu
