// C = alpha op(A) op(B) + beta C with float sums, by oneDNN's sgemm.
#pragma once

#include <cublas_v2.h>

#include <cstdint>

namespace cuda_emulation {

/// What all products of a call, or of a group, have in common.
struct ProductShape {
  cublasOperation_t transpose_a, transpose_b;
  int64_t m, n, k;
  int64_t stride_a, stride_b, stride_c;
  cudaDataType type_ab, type_c;
  float alpha, beta;
};

/// CUBLAS_STATUS_INVALID_VALUE for sizes and strides that cuBLAS refuses.
cublasStatus_t check_shape(const ProductShape& shape);
/// CUBLAS_STATUS_NOT_SUPPORTED for types that GemmEx of cuBLAS has not.
cublasStatus_t check_types(cudaDataType type_a, cudaDataType type_b, cudaDataType type_c, cublasComputeType_t compute);

/// Multiplies now. With k = 0, C is scaled by beta, and cleared if that is 0. `what` names the call.
void multiply(int device, const ProductShape& shape, const void* a, const void* b, void* c, const char* what);

}  // namespace cuda_emulation
