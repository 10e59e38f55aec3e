// Tiles and products of attention in float. A block of 16 x 16 threads owns 64 rows of one side (queries or keys) and
// works on 64 rows of the other at a time: thread (x, y) has rows 4 y .. 4 y + 3 and columns 4 x .. 4 x + 3 of the
// scores. Rows of what is summed are cut into groups of 16 kColumns columns, a block for each: thread (x, y) has
// columns x, x + 16, ...
#pragma once

#include <type_traits>

#include "cuda/device.cuh"
#include "kernels/cuda/attention_places.cuh"

namespace heddle::cuda::attention_plain {

constexpr int kTile = 64, kSide = 16, kPatch = kTile / kSide, kThreads = kSide * kSide;
constexpr int kDepth = 32;              ///< how much of head_dim is multiplied at a time
constexpr int kTileStride = kTile + 4;  ///< rows of 16-byte pieces that begin in different banks
constexpr int kChunkFloats = kDepth * kTileStride, kWeightFloats = kTile * kTileStride;

/// Numbers of columns that kernels are made for: up to 128 in one group.
template <int kColumns>
using Columns = std::integral_constant<int, kColumns>;

template <typename Function>
void with_columns(int64_t head_dim, const Function& function) {
  if (head_dim <= 16)
    function(Columns<1>());
  else if (head_dim <= 32)
    function(Columns<2>());
  else if (head_dim <= 64)
    function(Columns<4>());
  else
    function(Columns<8>());
}

using Patch = float[kPatch][kPatch];
template <int kColumns>
using Sums = float[kPatch][kColumns];

__device__ __forceinline__ int patch_column() {
  return static_cast<int>(threadIdx.x) % kSide * kPatch;
}
__device__ __forceinline__ int patch_row() {
  return static_cast<int>(threadIdx.x) / kSide * kPatch;
}

/// chunk[d][row] = element depth + d of row first + row; 0 behind the sequence and behind head_dim. Eight neighbouring
/// elements of four rows to a warp: whole sectors are read, and different banks written.
template <typename T>
__device__ __forceinline__ void load_chunk(float* chunk, const HeadRows<const T>& rows, int first, int depth,
                                           const AttentionSizes& s) {
  const int thread = static_cast<int>(threadIdx.x), d = thread % 8;
#pragma unroll 1
  for (int row = thread / 8; row < kTile; row += kThreads / 8) {
    const T* const from = rows.row(first + row) + depth + d;
#pragma unroll
    for (int eight = 0; eight < kDepth; eight += 8) {
      const bool inside = first + row < s.sequence && depth + d + eight < s.head_dim;
      chunk[(d + eight) * kTileStride + row] = inside ? to_float(from[eight]) : 0.0f;
    }
  }
}

/// patch = own rows . other rows over head_dim; `chunks` holds 2 kChunkFloats. Begins with a barrier.
template <typename T>
__device__ __forceinline__ void multiply_rows(Patch& patch, float* chunks, const HeadRows<const T>& own, int own_first,
                                              const HeadRows<const T>& other, int other_first,
                                              const AttentionSizes& s) {
  float* const own_chunk = chunks;
  float* const other_chunk = chunks + kChunkFloats;
#pragma unroll
  for (int i = 0; i < kPatch; ++i)
#pragma unroll
    for (int j = 0; j < kPatch; ++j) patch[i][j] = 0;
  for (int depth = 0; depth < s.head_dim; depth += kDepth) {
    __syncthreads();  // the chunks before are read
    load_chunk(own_chunk, own, own_first, depth, s);
    load_chunk(other_chunk, other, other_first, depth, s);
    __syncthreads();
    const int count = min(kDepth, s.head_dim - depth);
#pragma unroll 4
    for (int d = 0; d < count; ++d) {
      const auto a = *reinterpret_cast<const float4*>(own_chunk + d * kTileStride + patch_row());
      const auto b = *reinterpret_cast<const float4*>(other_chunk + d * kTileStride + patch_column());
      const float rows[kPatch] = {a.x, a.y, a.z, a.w}, columns[kPatch] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int i = 0; i < kPatch; ++i)
#pragma unroll
        for (int j = 0; j < kPatch; ++j) patch[i][j] += rows[i] * columns[j];
    }
  }
}

/// weights[row][column] of the block from the patches of its threads. Nobody reads them before the next barrier.
__device__ __forceinline__ void store_patch(float* weights, const Patch& patch) {
#pragma unroll
  for (int i = 0; i < kPatch; ++i)
    *reinterpret_cast<float4*>(weights + (patch_row() + i) * kTileStride + patch_column()) =
        make_float4(patch[i][0], patch[i][1], patch[i][2], patch[i][3]);
}

/// values[row][column] = element first_column + column of row first + row, 16 kColumns columns; 0 outside.
template <int kColumns, typename T>
__device__ __forceinline__ void load_values(float* values, const HeadRows<const T>& rows, int first, int first_column,
                                            const AttentionSizes& s) {
  constexpr int kWidth = kSide * kColumns, kRowsAtOnce = kThreads / kWidth;
  const int thread = static_cast<int>(threadIdx.x), column = thread % kWidth;
  int row = thread / kWidth;
  const T* from = rows.row(first + row) + first_column + column;
#pragma unroll 4
  for (int turn = 0; turn < kTile / kRowsAtOnce; ++turn) {
    const bool inside = first + row < s.sequence && first_column + column < s.head_dim;
    values[row * kWidth + column] = inside ? to_float(*from) : 0.0f;
    row += kRowsAtOnce, from += kRowsAtOnce * rows.stride;
  }
}

/// sums += weights values: column c of the weights belongs to row c of the values.
template <int kColumns>
__device__ __forceinline__ void add_weighted_rows(Sums<kColumns>& sums, const float* weights, const float* values) {
  values += threadIdx.x % kSide;
  weights += patch_row() * kTileStride;
#pragma unroll 2
  for (int first = 0; first < kTile; first += 4) {
    float of_rows[kPatch][4];
#pragma unroll
    for (int i = 0; i < kPatch; ++i) {
      const auto four = *reinterpret_cast<const float4*>(weights + i * kTileStride + first);
      of_rows[i][0] = four.x, of_rows[i][1] = four.y, of_rows[i][2] = four.z, of_rows[i][3] = four.w;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const float value = values[(first + j) * kSide * kColumns + kSide * c];
#pragma unroll
        for (int i = 0; i < kPatch; ++i) sums[i][c] += of_rows[i][j] * value;
      }
  }
}

/// Stores the block's rows times factors[row of the patch].
template <int kColumns, typename T>
__device__ __forceinline__ void store_rows(const Sums<kColumns>& sums, const float (&factors)[kPatch],
                                           const HeadRows<T>& rows, int first, int first_column,
                                           const AttentionSizes& s) {
#pragma unroll
  for (int i = 0; i < kPatch; ++i)
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int row = first + patch_row() + i;
      const int column = first_column + static_cast<int>(threadIdx.x) % kSide + kSide * c;
      if (row < s.sequence && column < s.head_dim) rows.row(row)[column] = from_float<T>(sums[i][c] * factors[i]);
    }
}

/// A block for each tile of rows, and in y for each group of columns.
inline dim3 plain_grid(const AttentionShape& s, int64_t heads, int columns) {
  return {attention_blocks(s, heads, kTile), block_count(s.head_dim, kSide * columns)};
}

}  // namespace heddle::cuda::attention_plain
