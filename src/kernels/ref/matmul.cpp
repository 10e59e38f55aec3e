// Reference matrix products: three loops, sums in double.
#include "kernels/ref/operations.h"

namespace heddle::ref {

void matmul(Transpose a_transpose, Transpose b_transpose, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
            int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p) {
        const float left = a_transpose == Transpose::kNo ? a[i * lda + p] : a[p * lda + i];
        const float right = b_transpose == Transpose::kNo ? b[p * ldb + j] : b[j * ldb + p];
        sum += static_cast<double>(left) * static_cast<double>(right);
      }
      float& out = c[i * ldc + j];
      const double base = beta == 0 ? 0 : static_cast<double>(beta) * static_cast<double>(out);
      out = static_cast<float>(static_cast<double>(alpha) * sum + base);
    }
  }
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

}  // namespace heddle::ref
