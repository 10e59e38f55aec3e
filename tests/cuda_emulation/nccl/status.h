// NCCL's results with details.
#pragma once

#include <nccl.h>

namespace cuda_emulation {

/// Returns the result; ncclGetLastError will give the text.
__attribute__((format(printf, 2, 3))) ncclResult_t nccl_error(ncclResult_t result, const char* format, ...);

}  // namespace cuda_emulation
