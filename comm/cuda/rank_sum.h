// Sums over ranks in rank order, so that they have the bits of sums over host memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace heddle::cuda {

/// values[i] = c[0][i] + c[1][i] + ... in rank order, where c[own] is values itself and the contributions of the other
/// ranks lie at contributions + rank * count.
void sum_ranks(int64_t count, int ranks, int own, const float* contributions, float* values, cudaStream_t stream);

}  // namespace heddle::cuda
