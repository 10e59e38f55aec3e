// Matrix products with operands that cuBLAS does not check.
#include <cublas_v2.h>

#include "cuda/device.cuh"
#include "cuda/library_error.h"
#include "cuda_emulation/faults/fault.h"

namespace heddle::cuda {

namespace {

void short_operand(bool faulty) {
  const float alpha = 1.0f, beta = 0.0f;
  const float* const a = device_values(std::vector<float>(64));
  const float* const b = device_values(std::vector<float>(64));
  float* const c = device_values(std::vector<float>(faulty ? 63 : 64));
  check(cublasGemmEx(context().cublas(), CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 8, &alpha, a, CUDA_R_32F, 8, b, CUDA_R_32F, 8,
                     &beta, c, CUDA_R_32F, 8, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
}

/// One group of one 8 x 8 product; the arrays of addresses are given.
void grouped_product(const void* const* a, const void* const* b, void* const* c, cudaDataType type) {
  const cublasOperation_t plain = CUBLAS_OP_N;
  const int eight = 8, one = 1;
  const float alpha = 1.0f, beta = 0.0f;
  check(cublasGemmGroupedBatchedEx(context().cublas(), &plain, &plain, &eight, &eight, &eight, &alpha, a, type, &eight,
                                   b, type, &eight, &beta, c, type, &eight, 1, &one, CUBLAS_COMPUTE_32F),
        "cublasGemmGroupedBatchedEx");
}

template <typename T>
T* on_device(T value) {
  auto* const memory = static_cast<T*>(device_malloc(sizeof(T)));
  copy_to_device(memory, &value, sizeof(T));
  return memory;
}

void addresses_on_host(bool faulty) {
  const void* const a = device_values(std::vector<float>(64));
  void* const c = device_values(std::vector<float>(64));
  grouped_product(faulty ? &a : on_device(a), on_device(a), on_device(c), CUDA_R_32F);
}

void misaligned_matrix(bool faulty) {
  const char* const a = static_cast<const char*>(device_malloc(256));
  void* const c = device_malloc(256);
  grouped_product(on_device(static_cast<const void*>(a + (faulty ? 8 : 0))), on_device(static_cast<const void*>(a)),
                  on_device(c), CUDA_R_16BF);
}

}  // namespace

std::vector<Fault> cublas_faults() {
  const char* overrun = "cublasGemmEx: C: 256 bytes from byte 0 on overrun an allocation of 252 bytes";
  const char* addresses = "array of addresses of A: ";
  const char* alignment = "is not aligned to 16 bytes, which k = 8 needs";
  return {
      {"short_operand", "a matrix that is longer than its allocation", overrun, overrun, overrun, short_operand},
      {"addresses_on_host", "grouped products whose array of addresses is on the host", addresses, addresses, addresses,
       addresses_on_host},
      {"misaligned_matrix", "grouped 16-bit products on addresses that are not aligned", alignment, alignment,
       alignment, misaligned_matrix},
  };
}

}  // namespace heddle::cuda
