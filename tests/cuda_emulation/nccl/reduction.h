// Element-wise reductions of NCCL.
#pragma once

#include <nccl.h>

#include <cstddef>

namespace cuda_emulation {

/// sums[i] = sums[i] op values[i]. bfloat16 is rounded at every step, as between GPUs. ncclAvg adds.
void reduce_elements(void* sums, const void* values, size_t count, ncclDataType_t type, ncclRedOp_t operation);

/// The division that is left to do for ncclAvg.
void divide_elements(void* sums, size_t count, ncclDataType_t type, int ranks);

}  // namespace cuda_emulation
