// Tiles and products of attention on tensor cores. A block owns rows of one side (queries or keys), 16 kRowTiles of
// them per warp, and tiles of the other side pass through shared memory. What a warp calculates stays in its registers
// as fragments of mma.m16n8k16: fragments[r][n][e] of a lane is row 16 r + lane / 4 + 8 (e / 2) and column
// 8 n + 2 (lane % 4) + e % 2 of the warp's rows.
#pragma once

#include <type_traits>

#include "cuda/device.cuh"
#include "kernels/cuda/attention_places.cuh"

namespace heddle::cuda::attention_on_tensor_cores {

using Bfloat16 = __nv_bfloat16;

constexpr float kLog2E = 1.44269504f;

/// Elements from row to row of a tile in shared memory: an odd number of 16-byte pieces, so that the 8 rows of a matrix
/// lie in different banks.
template <int kHeadDim>
constexpr int kTileStride = kHeadDim + 8;

/// Head sizes that kernels are made for; others run in the next larger one, padded with zeros.
template <int kHeadDim>
using HeadDim = std::integral_constant<int, kHeadDim>;

template <typename Function>
void with_head_dim(int64_t head_dim, const Function& function) {
  if (head_dim <= 32)
    function(HeadDim<32>());
  else if (head_dim <= 64)
    function(HeadDim<64>());
  else if (head_dim <= 96)
    function(HeadDim<96>());
  else
    function(HeadDim<128>());
}

template <int kRowTiles, int kColumnTiles>
using Fragments = float[kRowTiles][kColumnTiles][4];

/// A number for each row that a lane has a part of: row 16 r + lane / 4 + 8 half at [2 r + half].
template <typename T, int kRowTiles>
using PerRow = T[2 * kRowTiles];

/// The lane's row number [index] of a PerRow, within the warp's rows.
__device__ __forceinline__ int row_of_lane(int index) {
  return 8 * index + lane_index() / 4;
}
/// The first of the lane's two columns, within 8.
__device__ __forceinline__ int column_of_lane() {
  return 2 * (lane_index() % 4);
}

/// Starts to copy rows first .. first + kRows - 1 of a head into a tile [kRows, kTileStride]; what lies behind the
/// sequence or behind head_dim becomes 0.
template <int kRows, int kHeadDim, int kThreads>
__device__ __forceinline__ void copy_tile(Bfloat16* tile, const HeadRows<const Bfloat16>& rows, int first,
                                          const AttentionSizes& s) {
  constexpr int kPacks = kHeadDim / 8, kRowsAtOnce = kThreads / kPacks;
  const int thread = static_cast<int>(threadIdx.x), column = thread % kPacks * 8;
  int row = thread / kPacks;
  const Bfloat16* from = rows.row(first + row) + column;
  if (kThreads % kPacks != 0 && row >= kRowsAtOnce) return;
#pragma unroll 1
  for (; row < kRows; row += kRowsAtOnce, from += kRowsAtOnce * rows.stride) {
    const bool inside = first + row < s.sequence && column < s.head_dim;
    copy_async<16>(tile + row * kTileStride<kHeadDim> + column, inside ? from : rows.first, inside);
  }
}

/// products += (the warp's rows of one tile) (the rows of another tile)^T, over kHeadDim.
template <int kHeadDim, int kRowTiles, int kColumnTiles>
__device__ __forceinline__ void multiply_rows(Fragments<kRowTiles, kColumnTiles>& products, const Bfloat16* own,
                                              const Bfloat16* other) {
  constexpr int kStride = kTileStride<kHeadDim>;
  const int lane = lane_index();
  own += lane % 16 * kStride + lane / 16 * 8;
  other += (lane % 8 + lane / 16 * 8) * kStride + lane / 8 % 2 * 8;
#pragma unroll
  for (int depth = 0; depth < kHeadDim; depth += 16) {
    uint32_t a[kRowTiles][4];
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
      load_matrices(a[r][0], a[r][1], a[r][2], a[r][3], own + 16 * r * kStride + depth);
#pragma unroll
    for (int n = 0; n < kColumnTiles; n += 2) {
      uint32_t left[2], right[2];
      load_matrices(left[0], left[1], right[0], right[1], other + 8 * n * kStride + depth);
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        mma_m16n8k16(products[r][n], a[r], left);
        mma_m16n8k16(products[r][n + 1], a[r], right);
      }
    }
  }
}

/// sums += weights (the rows of a tile): column c of the weights belongs to row c of the tile.
template <int kHeadDim, int kRowTiles, int kColumnTiles>
__device__ __forceinline__ void add_weighted_rows(Fragments<kRowTiles, kHeadDim / 8>& sums,
                                                  const Fragments<kRowTiles, kColumnTiles>& weights,
                                                  const Bfloat16* tile) {
  constexpr int kStride = kTileStride<kHeadDim>;
  const int lane = lane_index();
  tile += lane % 16 * kStride + lane / 16 * 8;
#pragma unroll
  for (int n = 0; n < kColumnTiles; n += 2) {
    uint32_t a[kRowTiles][4];
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        a[r][i] = fragment_pair(weights[r][n + i / 2][i % 2 * 2], weights[r][n + i / 2][i % 2 * 2 + 1]);
#pragma unroll
    for (int column = 0; column < kHeadDim / 8; column += 2) {
      uint32_t left[2], right[2];
      load_matrices_transposed(left[0], left[1], right[0], right[1], tile + 8 * n * kStride + 8 * column);
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        mma_m16n8k16(sums[r][column], a[r], left);
        mma_m16n8k16(sums[r][column + 1], a[r], right);
      }
    }
  }
}

/// Stores the rows of a warp, through its rows of a tile that no other warp reads, so that lines are written whole.
template <int kHeadDim, int kRowTiles>
__device__ __forceinline__ void store_rows(const Fragments<kRowTiles, kHeadDim / 8>& values, Bfloat16* tile,
                                           const HeadRows<Bfloat16>& rows, int first, const AttentionSizes& s) {
  constexpr int kStride = kTileStride<kHeadDim>, kPacks = kHeadDim / 8;
  __syncwarp();
#pragma unroll
  for (int index = 0; index < 2 * kRowTiles; ++index)
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      const float* const pair = &values[index / 2][n][index % 2 * 2];
      *reinterpret_cast<uint32_t*>(tile + row_of_lane(index) * kStride + 8 * n + column_of_lane()) =
          fragment_pair(pair[0], pair[1]);
    }
  __syncwarp();
  for (int at = lane_index(); at < 16 * kRowTiles * kPacks; at += kWarpSize) {
    const int row = at / kPacks, column = at % kPacks * 8;
    if (first + row < s.sequence && column < s.head_dim)
      store_pack(rows.row(first + row) + column, load_pack(tile + row * kStride + column));
  }
}

/// Whether any of the warp's rows sees a tile of `columns` positions from `first` on. Both ends of what a row sees
/// never fall from row to row.
template <int kRows>
__device__ __forceinline__ bool any_visible(const Range* visible, int first, int columns) {
  return first <= visible[kRows - 1].last && first + columns > visible[0].first;
}

/// Scores that the warp's rows do not see become minus infinity. `first` is the position of column 0.
template <int kRowTiles, int kColumnTiles>
__device__ __forceinline__ void hide(Fragments<kRowTiles, kColumnTiles>& scores, const Range* visible, int first) {
  const bool all = first >= visible[16 * kRowTiles - 1].first && first + 8 * kColumnTiles <= visible[0].last + 1;
  if (all) return;
#pragma unroll
  for (int index = 0; index < 2 * kRowTiles; ++index) {
    const Range seen = visible[row_of_lane(index)];
    const Range columns = {seen.first - first - column_of_lane(), seen.last - first - column_of_lane()};
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i)
        if (!columns.contains(8 * n + i)) scores[index / 2][n][index % 2 * 2 + i] = -INFINITY;
  }
}

}  // namespace heddle::cuda::attention_on_tensor_cores
