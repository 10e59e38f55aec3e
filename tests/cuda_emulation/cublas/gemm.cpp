// cublasGemmEx and cublasGemmStridedBatchedEx. alpha and beta are floats on the host, read during the call.
#include <cublas_v2.h>

#include "cublas/handle.h"
#include "cublas/matrix.h"
#include "cublas/product.h"
#include "runtime/entry.h"
#include "runtime/failure.h"
#include "runtime/stream.h"

using namespace cuda_emulation;

extern "C" {

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transpose_a,
                                          cublasOperation_t transpose_b, int m, int n, int k, const void* alpha,
                                          const void* a, cudaDataType type_a, int stride_a, long long step_a,
                                          const void* b, cudaDataType type_b, int stride_b, long long step_b,
                                          const void* beta, void* c, cudaDataType type_c, int stride_c,
                                          long long step_c, int products, cublasComputeType_t compute,
                                          cublasGemmAlgo_t) {
  const Entry entry;
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (handle->stream == nullptr) fail("cublasGemmEx on the default stream: call cublasSetStream first");
  if (const cublasStatus_t status = check_types(type_a, type_b, type_c, compute)) return status;
  const ProductShape shape = {transpose_a,
                              transpose_b,
                              m,
                              n,
                              k,
                              stride_a,
                              stride_b,
                              stride_c,
                              type_a,
                              type_c,
                              *static_cast<const float*>(alpha),
                              *static_cast<const float*>(beta)};
  if (const cublasStatus_t status = check_shape(shape)) return status;
  if (products < 0) return CUBLAS_STATUS_INVALID_VALUE;
  enqueue(handle->stream, {"matrix product", [=, device = handle->device] {
                             const size_t bytes_ab = bytes_of(type_a), bytes_c = bytes_of(type_c);
                             const auto at = [](const void* base, long long step, int i, size_t bytes) {
                               return static_cast<const char*>(base) + step * i * static_cast<long long>(bytes);
                             };
                             for (int i = 0; i < products; ++i)
                               multiply(device, shape, at(a, step_a, i, bytes_ab), at(b, step_b, i, bytes_ab),
                                        const_cast<char*>(at(c, step_c, i, bytes_c)), "cublasGemmEx");
                           }});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transpose_a, cublasOperation_t transpose_b, int m,
                            int n, int k, const void* alpha, const void* a, cudaDataType type_a, int stride_a,
                            const void* b, cudaDataType type_b, int stride_b, const void* beta, void* c,
                            cudaDataType type_c, int stride_c, cublasComputeType_t compute,
                            cublasGemmAlgo_t algorithm) {
  return cublasGemmStridedBatchedEx(handle, transpose_a, transpose_b, m, n, k, alpha, a, type_a, stride_a, 0, b, type_b,
                                    stride_b, 0, beta, c, type_c, stride_c, 0, 1, compute, algorithm);
}

}  // extern "C"
