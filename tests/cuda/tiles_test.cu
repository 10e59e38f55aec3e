// Tiles in shared memory: copies that run on their own, fragments for tensor cores, and powers of two.
#include <cmath>
#include <limits>

#include "cuda/device.cuh"
#include "cuda/on_device.h"

namespace heddle::cuda {

namespace {

using Tiles = OnDevice;

cudaStream_t stream() {
  return context().compute_stream();
}

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

/// Products of one warp: by_rows = A B and by_transpose = A B^T, all [16, 16]. Rows of A from `rows` on count as 0.
__global__ void multiply_tiles_kernel(const __nv_bfloat16* a, const __nv_bfloat16* b, int rows, float* by_rows,
                                      float* by_transpose) {
  SHARED_ARRAY(__nv_bfloat16, tile_a, kSize * kStride);
  SHARED_ARRAY(__nv_bfloat16, tile_b, kSize * kStride);
  copy_tile(tile_a, a, rows);
  copy_tile(tile_b, b, kSize);
  copy_async_commit();
  copy_async_wait<0>();
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

/// Copies 64 floats in pieces of 4, 8 and 16 bytes to three lists, of which every second piece becomes 0.
__global__ void copy_in_pieces_kernel(const float* from, float* to) {
  SHARED_ARRAY(float, lists, 3 * 64);
  copy_in_pieces<1>(lists, from);
  copy_in_pieces<2>(lists + 64, from);
  copy_in_pieces<4>(lists + 128, from);
  copy_async_commit();
  copy_async_wait<0>();
  __syncthreads();
  for (int i = lane_index(); i < 3 * 64; i += kWarpSize) to[i] = lists[i];
}

__global__ void exp2_kernel(const float* x, float* y) {
  y[threadIdx.x] = exp2_approximate(x[threadIdx.x]);
}

std::vector<__nv_bfloat16> small_integers(int factor, int modulus) {
  std::vector<__nv_bfloat16> values;
  for (int i = 0; i < 256; ++i)
    values.push_back(__float2bfloat16(static_cast<float>(i * factor % modulus - modulus / 2)));
  return values;
}

}  // namespace

TEST_F(Tiles, ProductsFromRowsAndFromTheirTranspose) {
  constexpr size_t kSide = 16, kRows = 11;
  const std::vector<__nv_bfloat16> a = small_integers(7, 13), b = small_integers(5, 11);
  DeviceArray<__nv_bfloat16> device_a(a), device_b(b);
  DeviceArray<float> by_rows(256), by_transpose(256);
  launch(multiply_tiles_kernel, {1, 32}, stream(), device_a.data(), device_b.data(), static_cast<int>(kRows),
         by_rows.data(), by_transpose.data());
  const std::vector<float> found = by_rows.values(), found_transpose = by_transpose.values();
  for (size_t row = 0; row < kSide; ++row)
    for (size_t column = 0; column < kSide; ++column) {
      float sum = 0, sum_transpose = 0;
      for (size_t i = 0; i < kSide && row < kRows; ++i) {
        sum += __bfloat162float(a[row * kSide + i]) * __bfloat162float(b[i * kSide + column]);
        sum_transpose += __bfloat162float(a[row * kSide + i]) * __bfloat162float(b[column * kSide + i]);
      }
      EXPECT_EQ(found[row * kSide + column], sum) << row << ", " << column;
      EXPECT_EQ(found_transpose[row * kSide + column], sum_transpose) << row << ", " << column;
    }
}

TEST_F(Tiles, PiecesOfThreeSizesAndZeros) {
  std::vector<float> values(64);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
  DeviceArray<float> from(values), to(3 * 64);
  launch(copy_in_pieces_kernel, {1, 32}, stream(), from.data(), to.data());
  const std::vector<float> found = to.values();
  for (size_t list = 0; list < 3; ++list)
    for (size_t i = 0; i < 64; ++i)
      EXPECT_EQ(found[64 * list + i], (i >> list) % 2 == 0 ? values[i] : 0.0f) << "list " << list << ", " << i;
}

TEST_F(Tiles, PowersOfTwo) {
  std::vector<float> x(32);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) * 4.3f - 100.0f;
  x[30] = -std::numeric_limits<float>::infinity();
  x[31] = std::numeric_limits<float>::quiet_NaN();
  DeviceArray<float> device_x(x), y(32);
  launch(exp2_kernel, {1, 32}, stream(), device_x.data(), y.data());
  const std::vector<float> found = y.values();
  for (size_t i = 0; i < 30; ++i) {
    const double power = std::exp2(static_cast<double>(x[i]));
    EXPECT_NEAR(static_cast<double>(found[i]), power, 3e-7 * power) << x[i];
  }
  EXPECT_EQ(found[30], 0.0f);
  EXPECT_TRUE(std::isnan(found[31]));
}

}  // namespace heddle::cuda
