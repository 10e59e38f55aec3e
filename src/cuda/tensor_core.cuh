// Products on tensor cores: the one instruction that Ampere and Hopper share, mma.m16n8k16, on bfloat16 with float
// sums, and the loads from shared memory that go with it.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "cuda/reductions.cuh"

namespace heddle::cuda {

/// D[16, 8] += A[16, 16] B[16, 8] by one warp, all 32 lanes together. With group = lane / 4 and pair = 2 (lane % 4),
/// a lane holds (a register has the lower column, or row of B, in its low half):
///   a[0]: A[group, pair..pair+1]      a[1]: A[group + 8, pair..pair+1]
///   a[2]: A[group, pair+8..pair+9]    a[3]: A[group + 8, pair+8..pair+9]
///   b[0]: B[pair..pair+1, group]      b[1]: B[pair+8..pair+9, group]
///   d[0], d[1]: D[group, pair..pair+1]   d[2], d[3]: D[group + 8, pair..pair+1]
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#ifdef __CUDACC__
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  cuda_emulation::mma_m16n8k16(d, a, b);
#endif
}

/// Four 8 x 8 matrices from shared memory by one warp, all 32 lanes together. Lane l says where row l % 8 of matrix
/// l / 8 lies: 8 elements, at a multiple of 16 bytes. Register m of a lane gets, of matrix m, row lane / 4 and columns
/// 2 (lane % 4) and the next: the fragments of A from its rows, or of B from the rows of its transpose.
__device__ __forceinline__ void load_matrices(uint32_t& m0, uint32_t& m1, uint32_t& m2, uint32_t& m3,
                                              const __nv_bfloat16* row) {
#ifdef __CUDACC__
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m0), "=r"(m1), "=r"(m2), "=r"(m3)
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row))));
#else
  cuda_emulation::load_matrices(false, m0, m1, m2, m3, row);
#endif
}

/// The same, but a lane gets rows 2 (lane % 4) and the next of column lane / 4: the fragments of B from its rows.
__device__ __forceinline__ void load_matrices_transposed(uint32_t& m0, uint32_t& m1, uint32_t& m2, uint32_t& m3,
                                                         const __nv_bfloat16* row) {
#ifdef __CUDACC__
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m0), "=r"(m1), "=r"(m2), "=r"(m3)
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row))));
#else
  cuda_emulation::load_matrices(true, m0, m1, m2, m3, row);
#endif
}

/// Two neighbouring bfloat16 as a register of a fragment. `address` must be a multiple of 4 bytes.
__device__ __forceinline__ uint32_t fragment_pair(const __nv_bfloat16* address) {
  return *reinterpret_cast<const uint32_t*>(address);
}
/// Two floats, rounded, as a register of a fragment; `low` has the lower column (A) or row (B).
__device__ __forceinline__ uint32_t fragment_pair(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  uint32_t bits;
  memcpy(&bits, &both, sizeof(bits));
  return bits;
}

}  // namespace heddle::cuda
