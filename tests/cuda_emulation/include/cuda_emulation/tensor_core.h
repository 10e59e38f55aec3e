// mma.m16n8k16 on bfloat16 and its loads from shared memory, as cuda/tensor_core.cuh describes them.
#pragma once

#include <cuda_runtime.h>

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

/// Each lane reads the row that it names, where the sanitizers see it; the warp then hands the pieces out.
inline void load_matrices(bool transposed, uint32_t& m0, uint32_t& m1, uint32_t& m2, uint32_t& m3, const void* row,
                          const Place& place = Place::current()) {
  const uint4 mine = *static_cast<const uint4*>(row);
  uint32_t pieces[4];
  const WarpOperation operation = transposed ? WarpOperation::kLoadMatricesTransposed : WarpOperation::kLoadMatrices;
  warp_operation(operation, 0xffffffffu, {&mine, sizeof(mine), pieces, sizeof(pieces)}, place);
  m0 = pieces[0], m1 = pieces[1], m2 = pieces[2], m3 = pieces[3];
}

}  // namespace cuda_emulation
