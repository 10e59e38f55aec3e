// Statuses of the CUDA runtime as errors. Light enough for .cu files: no formatting library.
#pragma once

#include <cuda_runtime_api.h>

namespace heddle::cuda {

/// Throws Error with the status's name and text and with `call`, unless the status is success. An error of a kernel
/// shows at a later call, so `call` is where it was seen and not always what went wrong.
void check(cudaError_t status, const char* call);

}  // namespace heddle::cuda
