// mma.m16n8k16 on bfloat16, as cuda/tensor_core.cuh describes it.
#pragma once

#include <cstdint>
#include <cstring>

#include <cuda_emulation/warp.h>

namespace cuda_emulation {

/// A lane's registers of the three matrices.
struct MatrixFragments {
  uint32_t a[4];
  uint32_t b[2];
  float d[4];
};

inline void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                         const Place& place = Place::current()) {
  MatrixFragments fragments;
  memcpy(fragments.a, a, sizeof(a));
  memcpy(fragments.b, b, sizeof(b));
  memcpy(fragments.d, d, sizeof(d));
  warp_operation(WarpOperation::kMatrixProduct, 0xffffffffu, {&fragments, sizeof(fragments), d, sizeof(d)}, place);
}

}  // namespace cuda_emulation
