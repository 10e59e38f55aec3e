// cublasGemmGroupedBatchedEx: groups of products, each group with a shape of its own. The arrays of shapes are on the
// host and read during the call; the arrays of matrix addresses are in device memory and read when the stream gets
// there.
#include <cublas_v2.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cublas/handle.h"
#include "cublas/matrix.h"
#include "cublas/product.h"
#include "runtime/allocations.h"
#include "runtime/entry.h"
#include "runtime/failure.h"
#include "runtime/stream.h"

using namespace cuda_emulation;

namespace {

struct Group {
  ProductShape shape;
  int products;
};

/// The types that the grouped call has, fewer than cublasGemmEx: all matrices are of one type.
cublasStatus_t check_grouped_types(cudaDataType type_a, cudaDataType type_b, cudaDataType type_c,
                                   cublasComputeType_t compute) {
  if (type_a != type_c) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (type_a == CUDA_R_16BF && compute != CUBLAS_COMPUTE_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  return check_types(type_a, type_b, type_c, compute);
}

/// NVIDIA's rule for 16-bit matrices that are given by addresses; without it the device faults.
void check_alignment(const void* matrix, const ProductShape& shape, const char* what) {
  if (shape.type_ab != CUDA_R_16BF) return;
  const uintptr_t needed = shape.k % 8 == 0 ? 16 : shape.k % 2 == 0 ? 4 : 2;
  if (reinterpret_cast<uintptr_t>(matrix) % needed != 0)
    fail("cublasGemmGroupedBatchedEx: %s at %p is not aligned to %zu bytes, which k = %lld needs", what, matrix,
         static_cast<size_t>(needed), static_cast<long long>(shape.k));
}

void multiply_groups(int device, const std::vector<Group>& groups, const void* const* a, const void* const* b,
                     void* const* c) {
  size_t products = 0;
  for (const Group& group : groups) products += static_cast<size_t>(group.products);
  const size_t bytes = products * sizeof(void*);
  check_device_operand(device, a, bytes, false, "cublasGemmGroupedBatchedEx: array of addresses of A");
  check_device_operand(device, b, bytes, false, "cublasGemmGroupedBatchedEx: array of addresses of B");
  check_device_operand(device, c, bytes, false, "cublasGemmGroupedBatchedEx: array of addresses of C");
  size_t next = 0;
  for (const Group& group : groups)
    for (int i = 0; i < group.products; ++i, ++next) {
      // NVIDIA does not say what k = 0 does here. The worst case: C stays as it was, even with beta = 0.
      if (group.shape.m == 0 || group.shape.n == 0 || group.shape.k == 0) continue;
      check_alignment(a[next], group.shape, "A");
      check_alignment(b[next], group.shape, "B");
      check_alignment(c[next], group.shape, "C");
      multiply(device, group.shape, a[next], b[next], c[next], "cublasGemmGroupedBatchedEx");
    }
}

}  // namespace

extern "C" {

cublasStatus_t cublasGemmGroupedBatchedEx(cublasHandle_t handle, const cublasOperation_t transpose_a[],
                                          const cublasOperation_t transpose_b[], const int m[], const int n[],
                                          const int k[], const void* alpha, const void* const a[], cudaDataType type_a,
                                          const int stride_a[], const void* const b[], cudaDataType type_b,
                                          const int stride_b[], const void* beta, void* const c[], cudaDataType type_c,
                                          const int stride_c[], int group_count, const int group_size[],
                                          cublasComputeType_t compute) {
  const Entry entry;
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (handle->stream == nullptr) fail("cublasGemmGroupedBatchedEx on the default stream: call cublasSetStream first");
  if (const cublasStatus_t status = check_grouped_types(type_a, type_b, type_c, compute)) return status;
  if (group_count < 0) return CUBLAS_STATUS_INVALID_VALUE;
  std::vector<Group> groups;
  for (int i = 0; i < group_count; ++i) {
    const ProductShape shape = {transpose_a[i],
                                transpose_b[i],
                                m[i],
                                n[i],
                                k[i],
                                stride_a[i],
                                stride_b[i],
                                stride_c[i],
                                type_a,
                                type_c,
                                static_cast<const float*>(alpha)[i],
                                static_cast<const float*>(beta)[i]};
    if (const cublasStatus_t status = check_shape(shape)) return status;
    if (group_size[i] < 0) return CUBLAS_STATUS_INVALID_VALUE;
    groups.push_back({shape, group_size[i]});
  }
  enqueue(handle->stream, {"grouped matrix products", [=, device = handle->device, groups = std::move(groups)] {
                             multiply_groups(device, groups, a, b, c);
                           }});
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
