// What a cuBLAS handle remembers.
#pragma once

#include <cublas_v2.h>

struct cublasContext {
  int device = 0;
  cudaStream_t stream = nullptr;
  cublasMath_t math_mode = CUBLAS_DEFAULT_MATH;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
};
