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

namespace {
/// to = sum, or to += sum.
void store(float& to, double sum, bool accumulate) {
  to = static_cast<float>(accumulate ? static_cast<double>(to) + sum : sum);
}
}  // namespace

void grouped_matmul_forward(int64_t groups, const int64_t* offsets, int64_t n, int64_t k, const float* x,
                            const float* w, float* y) {
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t row = offsets[g]; row < offsets[g + 1]; ++row)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t p = 0; p < k; ++p)
          sum += static_cast<double>(x[row * k + p]) * static_cast<double>(w[(g * n + j) * k + p]);
        store(y[row * n + j], sum, false);
      }
}

void grouped_matmul_input_gradient(int64_t groups, const int64_t* offsets, int64_t n, int64_t k, const float* dy,
                                   const float* w, bool accumulate, float* dx) {
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t row = offsets[g]; row < offsets[g + 1]; ++row)
      for (int64_t p = 0; p < k; ++p) {
        double sum = 0;
        for (int64_t j = 0; j < n; ++j)
          sum += static_cast<double>(dy[row * n + j]) * static_cast<double>(w[(g * n + j) * k + p]);
        store(dx[row * k + p], sum, accumulate);
      }
}

void grouped_matmul_weight_gradient(int64_t groups, const int64_t* offsets, int64_t n, int64_t k, const float* dy,
                                    const float* x, bool accumulate, float* dw) {
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t p = 0; p < k; ++p) {
        double sum = 0;
        for (int64_t row = offsets[g]; row < offsets[g + 1]; ++row)
          sum += static_cast<double>(dy[row * n + j]) * static_cast<double>(x[row * k + p]);
        store(dw[(g * n + j) * k + p], sum, accumulate);
      }
}

}  // namespace heddle::ref
