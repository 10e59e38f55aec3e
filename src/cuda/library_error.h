// Statuses of cuBLAS and NCCL as errors, like those of the CUDA runtime.
#pragma once

#include <cublas_v2.h>
#include <nccl.h>

#include "cuda/error.h"

namespace heddle::cuda {

/// Throw Error with the status's text and with `call`, unless the status is success.
void check(cublasStatus_t status, const char* call);
void check(ncclResult_t status, const char* call);

}  // namespace heddle::cuda
