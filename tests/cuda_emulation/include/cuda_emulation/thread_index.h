// Which thread of which block runs. The runtime sets the values whenever it switches threads; to a kernel they are
// constants.
#pragma once

#include <cuda_runtime.h>

extern "C" {
extern const uint3 threadIdx, blockIdx;
extern const dim3 blockDim, gridDim;
extern const int warpSize;
}
