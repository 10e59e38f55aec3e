// Matrix products by cuBLAS. It is column-major: what it takes for C is our C transposed, so A and B change places.
// How it may multiply is set in the context.
#include <cublas_v2.h>

#include <vector>

#include "cuda/context.h"
#include "cuda/library_error.h"
#include "cuda/scratch.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/stored.h"
#include "support/narrow.h"

namespace heddle::cuda {

namespace {

cublasOperation_t operation(Transpose transpose) {
  return transpose == Transpose::kYes ? CUBLAS_OP_T : CUBLAS_OP_N;
}

cudaDataType_t data_type(RealType type) {
  return type == RealType::kFloat32 ? CUDA_R_32F : CUDA_R_16BF;
}

/// C = beta C, which is all that is left of a product without terms. beta = 0 does not read C.
void scale_matrix(int64_t m, int64_t n, float beta, const Reals& c, int64_t ldc) {
  if (beta == 1) return;
  const bool whole = ldc == n;
  const int64_t rows = whole ? 1 : m, count = whole ? m * n : n;
  for (int64_t row = 0; row < rows; ++row) {
    const Reals part = c.at(row * ldc);
    if (beta == 0)
      fill_zero(count, part);
    else
      scale(count, beta, part, part);
  }
}

/// Products with the same transpositions, types and beta, each with rows, places and results of its own.
class ProductGroup {
 public:
  ProductGroup(Transpose a_transpose, Transpose b_transpose, float beta)
      : a_transpose_(a_transpose), b_transpose_(b_transpose), beta_(beta) {}

  /// C[m,n] = op(A)[m,k] op(B)[k,n] + beta C, C without gaps between its rows. Nothing stays to be done where the
  /// product has no elements or no terms.
  void add(int64_t m, int64_t n, int64_t k, const ConstReals& a, int64_t lda, const ConstReals& b, int64_t ldb,
           const Reals& c) {
    if (m == 0 || n == 0) return;
    if (k == 0) {
      scale_matrix(m, n, beta_, c, n);
      return;
    }
    a_operations_.push_back(operation(a_transpose_));
    b_operations_.push_back(operation(b_transpose_));
    alphas_.push_back(1);
    betas_.push_back(beta_);
    ones_.push_back(1);
    m_.push_back(narrow<int>(m));
    n_.push_back(narrow<int>(n));
    k_.push_back(narrow<int>(k));
    lda_.push_back(narrow<int>(lda));
    ldb_.push_back(narrow<int>(ldb));
    a_.push_back(a.data);
    b_.push_back(b.data);
    c_.push_back(c.data);
    factors_ = common_type({a, b});
    result_ = c.type;
  }

  /// In one call, where cuBLAS has one for such products.
  void multiply() const {
    if (m_.size() > 1 && may_be_grouped() && multiply_grouped()) return;
    for (size_t i = 0; i < m_.size(); ++i)
      matmul(a_transpose_, b_transpose_, m_[i], n_[i], k_[i], 1, {a_[i], factors_}, lda_[i], {b_[i], factors_}, ldb_[i],
             beta_, {c_[i], result_}, n_[i]);
  }

 private:
  /// The grouped call has no bfloat16 products with float32 results, and reads bfloat16 in pieces that the length of
  /// the sums decides: addresses that are not multiples of them fault.
  bool may_be_grouped() const {
    if (factors_ != result_) return false;
    if (factors_ == RealType::kFloat32) return true;
    for (size_t i = 0; i < m_.size(); ++i) {
      const uintptr_t piece = k_[i] % 8 == 0 ? 16 : k_[i] % 2 == 0 ? 4 : 2;
      const auto all =
          reinterpret_cast<uintptr_t>(a_[i]) | reinterpret_cast<uintptr_t>(b_[i]) | reinterpret_cast<uintptr_t>(c_[i]);
      if (all % piece != 0) return false;
    }
    return true;
  }

  /// False where cuBLAS has no such product under its math mode.
  bool multiply_grouped() const {
    const auto groups = static_cast<int64_t>(m_.size());
    Scratch scratch(3 * Scratch::bytes_of<void*>(groups));
    const void* const* const a = scratch.upload(a_.data(), groups);
    const void* const* const b = scratch.upload(b_.data(), groups);
    void* const* const c = scratch.upload(c_.data(), groups);
    const cublasStatus_t status = cublasGemmGroupedBatchedEx(
        context().cublas(), b_operations_.data(), a_operations_.data(), n_.data(), m_.data(), k_.data(), alphas_.data(),
        b, data_type(factors_), ldb_.data(), a, data_type(factors_), lda_.data(), betas_.data(), c, data_type(result_),
        n_.data(), narrow<int>(groups), ones_.data(), CUBLAS_COMPUTE_32F);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return false;
    check(status, "cublasGemmGroupedBatchedEx");
    return true;
  }

  Transpose a_transpose_, b_transpose_;
  float beta_;
  RealType factors_ = RealType::kFloat32, result_ = RealType::kFloat32;
  // One entry for each product.
  std::vector<cublasOperation_t> a_operations_, b_operations_;
  std::vector<float> alphas_, betas_;
  std::vector<int> ones_, m_, n_, k_, lda_, ldb_;
  std::vector<const void*> a_, b_;
  std::vector<void*> c_;
};

}  // namespace

void matmul(Transpose a_transpose, Transpose b_transpose, int64_t m, int64_t n, int64_t k, float alpha, ConstReals a,
            int64_t lda, ConstReals b, int64_t ldb, float beta, Reals c, int64_t ldc) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    scale_matrix(m, n, beta, c, ldc);
    return;
  }
  const cudaDataType_t factors = data_type(common_type({a, b}));
  check(cublasGemmEx(context().cublas(), operation(b_transpose), operation(a_transpose), narrow<int>(n), narrow<int>(m),
                     narrow<int>(k), &alpha, b.data, factors, narrow<int>(ldb), a.data, factors, narrow<int>(lda),
                     &beta, c.data, data_type(c.type), narrow<int>(ldc), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
}

void grouped_matmul_forward(int64_t groups, const int64_t* offsets, int64_t n, int64_t k, ConstReals x, ConstReals w,
                            Reals y) {
  ProductGroup products(Transpose::kNo, Transpose::kYes, 0);
  for (int64_t g = 0; g < groups; ++g)
    products.add(offsets[g + 1] - offsets[g], n, k, x.at(offsets[g] * k), k, w.at(g * n * k), k, y.at(offsets[g] * n));
  products.multiply();
}

void grouped_matmul_input_gradient(int64_t groups, const int64_t* offsets, int64_t n, int64_t k, ConstReals dy,
                                   ConstReals w, bool accumulate, Reals dx) {
  ProductGroup products(Transpose::kNo, Transpose::kNo, accumulate ? 1.0f : 0.0f);
  for (int64_t g = 0; g < groups; ++g)
    products.add(offsets[g + 1] - offsets[g], k, n, dy.at(offsets[g] * n), n, w.at(g * n * k), k,
                 dx.at(offsets[g] * k));
  products.multiply();
}

void grouped_matmul_weight_gradient(int64_t groups, const int64_t* offsets, int64_t n, int64_t k, ConstReals dy,
                                    ConstReals x, bool accumulate, float* dw) {
  ProductGroup products(Transpose::kYes, Transpose::kNo, accumulate ? 1.0f : 0.0f);
  for (int64_t g = 0; g < groups; ++g)
    products.add(n, k, offsets[g + 1] - offsets[g], dy.at(offsets[g] * n), n, x.at(offsets[g] * k), k,
                 Reals(dw).at(g * n * k));
  products.multiply();
}

}  // namespace heddle::cuda
