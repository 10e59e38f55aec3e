#include "cublas/product.h"

#include <dnnl.h>

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "cublas/matrix.h"
#include "runtime/failure.h"
#include "runtime/sanitizers.h"

namespace cuda_emulation {

namespace {

bool is_operation(cublasOperation_t operation) {
  return operation == CUBLAS_OP_N || operation == CUBLAS_OP_T;
}

Matrix operand(const void* data, cudaDataType type, cublasOperation_t operation, int64_t rows, int64_t columns,
               int64_t stride) {
  if (operation == CUBLAS_OP_T) std::swap(rows, columns);
  return {data, type, rows, columns, stride};
}

/// Floats that oneDNN can read: the matrix itself, or a copy of a bfloat16 matrix.
struct FloatOperand {
  explicit FloatOperand(const Matrix& matrix) {
    if (matrix.type == CUDA_R_32F) {
      data = static_cast<const float*>(matrix.data);
      stride = matrix.stride;
    } else {
      copy = as_floats(matrix);
      data = copy.data();
      stride = std::max<int64_t>(matrix.rows, 1);
    }
  }

  std::vector<float> copy;
  const float* data;
  int64_t stride;
};

/// oneDNN is row-major: its C is our C transposed, so A and B change places.
void multiply_floats(const ProductShape& shape, const FloatOperand& a, const FloatOperand& b, float* c,
                     int64_t stride_c) {
  const auto letter = [](cublasOperation_t operation) { return operation == CUBLAS_OP_T ? 'T' : 'N'; };
  const dnnl_status_t status =
      dnnl_sgemm(letter(shape.transpose_b), letter(shape.transpose_a), shape.n, shape.m, shape.k, shape.alpha, b.data,
                 b.stride, a.data, a.stride, shape.beta, c, stride_c);
  if (status != dnnl_success) fail("oneDNN's sgemm failed with status %d", static_cast<int>(status));
}

void check_operand(int device, const Matrix& matrix, bool write, const char* call, char name) {
  char what[96];
  {
    const UnwatchedScope unwatched;  // the stack is the host's
    snprintf(what, sizeof(what), "%s: %c", call, name);
  }
  check_matrix(device, matrix, write, what);
}

void scale(const Matrix& c, float beta) {
  std::vector<float> values(static_cast<size_t>(c.rows * c.columns), 0.0f);
  if (beta != 0.0f) {
    values = as_floats(c);
    for (float& value : values) value *= beta;
  }
  store_floats(c, values);
}

}  // namespace

cublasStatus_t check_shape(const ProductShape& shape) {
  if (!is_operation(shape.transpose_a) || !is_operation(shape.transpose_b)) return CUBLAS_STATUS_INVALID_VALUE;
  if (shape.m < 0 || shape.n < 0 || shape.k < 0) return CUBLAS_STATUS_INVALID_VALUE;
  const int64_t rows_a = shape.transpose_a == CUBLAS_OP_T ? shape.k : shape.m;
  const int64_t rows_b = shape.transpose_b == CUBLAS_OP_T ? shape.n : shape.k;
  if (shape.stride_a < std::max<int64_t>(1, rows_a) || shape.stride_b < std::max<int64_t>(1, rows_b) ||
      shape.stride_c < std::max<int64_t>(1, shape.m))
    return CUBLAS_STATUS_INVALID_VALUE;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_types(cudaDataType type_a, cudaDataType type_b, cudaDataType type_c, cublasComputeType_t compute) {
  if (!is_matrix_type(type_a) || type_a != type_b || !is_matrix_type(type_c)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (type_a == CUDA_R_32F && type_c != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_PEDANTIC) return CUBLAS_STATUS_SUCCESS;
  if (compute == CUBLAS_COMPUTE_32F_FAST_TF32 && type_a == CUDA_R_32F) return CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

void multiply(int device, const ProductShape& shape, const void* a_data, const void* b_data, void* c_data,
              const char* what) {
  if (shape.m == 0 || shape.n == 0) return;
  const Matrix c = {c_data, shape.type_c, shape.m, shape.n, shape.stride_c};
  check_operand(device, c, true, what, 'C');
  const Matrix a = operand(a_data, shape.type_ab, shape.transpose_a, shape.m, shape.k, shape.stride_a);
  const Matrix b = operand(b_data, shape.type_ab, shape.transpose_b, shape.k, shape.n, shape.stride_b);
  check_operand(device, a, false, what, 'A');
  check_operand(device, b, false, what, 'B');
  // ThreadSanitizer knows the operands now. The containers below lie on the host's stack, and their functions may be
  // the ones that it watches in the program.
  const UnwatchedScope unwatched;
  if (shape.k == 0) {
    scale(c, shape.beta);
    return;
  }
  const FloatOperand a_floats(a), b_floats(b);
  if (shape.type_c == CUDA_R_32F) {
    multiply_floats(shape, a_floats, b_floats, static_cast<float*>(c_data), shape.stride_c);
    return;
  }
  std::vector<float> sums =
      shape.beta == 0.0f ? std::vector<float>(static_cast<size_t>(shape.m * shape.n)) : as_floats(c);
  multiply_floats(shape, a_floats, b_floats, sums.data(), shape.m);
  store_floats(c, sums);
}

}  // namespace cuda_emulation
