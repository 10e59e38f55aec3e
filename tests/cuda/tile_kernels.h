// Kernels of one warp for what tiles in shared memory are made and used with.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

namespace heddle::cuda {

/// by_rows = A B and by_transpose = A B^T; all [16, 16]. Rows of A from `rows` on count as 0.
void multiply_tiles_on_device(const __nv_bfloat16* a, const __nv_bfloat16* b, int rows, float* by_rows,
                              float* by_transpose, cudaStream_t stream);

/// Copies 64 floats through shared memory in pieces of 4, 8 and 16 bytes to three lists, of which every second piece
/// becomes 0.
void copy_in_pieces_on_device(const float* from, float* to, cudaStream_t stream);

/// y = 2^x for 32 numbers.
void exp2_on_device(const float* x, float* y, cudaStream_t stream);

}  // namespace heddle::cuda
