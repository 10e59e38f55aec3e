// What a tensor core computes.
#pragma once

#include <cuda_emulation/tensor_core.h>

namespace cuda_emulation {

/// mma.m16n8k16 over the fragments of 32 lanes; the result replaces d. Products are exact and added in float, k
/// upwards.
void matrix_product(MatrixFragments* lanes);

}  // namespace cuda_emulation
