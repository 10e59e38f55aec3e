#include "cuda/tile_kernels.h"

#include "cuda/device.cuh"

namespace heddle::cuda {

namespace {

constexpr int kSize = 16, kStride = kSize + 8;

/// Row lane / 2, half of it.
__device__ void copy_tile(__nv_bfloat16* tile, const __nv_bfloat16* from, int rows) {
  const int row = lane_index() / 2, column = lane_index() % 2 * 8;
  copy_async<16>(tile + row * kStride + column, from + row * kSize + column, row < rows);
}

__device__ void store(float* c, int first_column, const float (&d)[4]) {
  for (int i = 0; i < 4; ++i)
    c[(lane_index() / 4 + 8 * (i / 2)) * kSize + first_column + 2 * (lane_index() % 4) + i % 2] = d[i];
}

__global__ void multiply_tiles_kernel(const __nv_bfloat16* a, const __nv_bfloat16* b, int rows, float* by_rows,
                                      float* by_transpose) {
  SHARED_ARRAY(__nv_bfloat16, tile_a, kSize * kStride);
  SHARED_ARRAY(__nv_bfloat16, tile_b, kSize * kStride);
  copy_tile(tile_a, a, rows);
  copy_tile(tile_b, b, kSize);
  wait_for_copies();
  __syncthreads();
  const int lane = lane_index();
  uint32_t fragment_a[4], left[2], right[2];
  load_matrices(fragment_a[0], fragment_a[1], fragment_a[2], fragment_a[3],
                tile_a + lane % 16 * kStride + lane / 16 * 8);
  load_matrices_transposed(left[0], left[1], right[0], right[1], tile_b + lane % 16 * kStride + lane / 16 * 8);
  float d[4][4] = {};
  mma_m16n8k16(d[0], fragment_a, left);
  mma_m16n8k16(d[1], fragment_a, right);
  load_matrices(left[0], left[1], right[0], right[1], tile_b + (lane % 8 + lane / 16 * 8) * kStride + lane / 8 % 2 * 8);
  mma_m16n8k16(d[2], fragment_a, left);
  mma_m16n8k16(d[3], fragment_a, right);
  store(by_rows, 0, d[0]);
  store(by_rows, 8, d[1]);
  store(by_transpose, 0, d[2]);
  store(by_transpose, 8, d[3]);
}

template <int kFloats>
__device__ void copy_in_pieces(float* shared, const float* from) {
  for (int first = lane_index() * kFloats; first < 64; first += kWarpSize * kFloats)
    copy_async<4 * kFloats>(shared + first, from + first, first / kFloats % 2 == 0);
}

__global__ void copy_in_pieces_kernel(const float* from, float* to) {
  SHARED_ARRAY(float, lists, 3 * 64);
  copy_in_pieces<1>(lists, from);
  copy_in_pieces<2>(lists + 64, from);
  copy_in_pieces<4>(lists + 128, from);
  wait_for_copies();
  __syncthreads();
  for (int i = lane_index(); i < 3 * 64; i += kWarpSize) to[i] = lists[i];
}

__global__ void exp2_kernel(const float* x, float* y) {
  y[threadIdx.x] = exp2_approximate(x[threadIdx.x]);
}

}  // namespace

void multiply_tiles_on_device(const __nv_bfloat16* a, const __nv_bfloat16* b, int rows, float* by_rows,
                              float* by_transpose, cudaStream_t stream) {
  launch(multiply_tiles_kernel, {1, 32}, stream, a, b, rows, by_rows, by_transpose);
}

void copy_in_pieces_on_device(const float* from, float* to, cudaStream_t stream) {
  launch(copy_in_pieces_kernel, {1, 32}, stream, from, to);
}

void exp2_on_device(const float* x, float* y, cudaStream_t stream) {
  launch(exp2_kernel, {1, 32}, stream, x, y);
}

}  // namespace heddle::cuda
