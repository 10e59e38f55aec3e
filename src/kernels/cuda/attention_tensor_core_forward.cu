// Attention forward on tensor cores, after FlashAttention-2 (Dao, 2023): a block owns query rows of one head and walks
// over the keys that they see; probabilities stay in registers. While keys are multiplied the values are on their way,
// and the next keys while values are.
#include "cuda/context.h"
#include "kernels/cuda/attention_paths.h"
#include "kernels/cuda/attention_tensor_core.cuh"
#include "kernels/cuda/stored.h"

namespace heddle::cuda::attention_on_tensor_cores {

namespace {

template <int kHeadDim>
struct Tile {
  static constexpr int kWarps = 4, kThreads = kWarps * kWarpSize;
  static constexpr int kRowTiles = 2, kRowsOfWarp = 16 * kRowTiles;
  static constexpr int kQueries = kWarps * kRowsOfWarp, kKeys = kHeadDim > 64 ? 32 : 64;
  static constexpr int kStride = kTileStride<kHeadDim>;
  static constexpr size_t kSharedBytes = sizeof(Bfloat16) * (kQueries + 2 * kKeys) * kStride;
};

/// Over the four lanes that share a row.
__device__ __forceinline__ float row_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(kFullWarp, value, 1));
  return fmaxf(value, __shfl_xor_sync(kFullWarp, value, 2));
}
__device__ __forceinline__ float row_sum(float value) {
  value += __shfl_xor_sync(kFullWarp, value, 1);
  return value + __shfl_xor_sync(kFullWarp, value, 2);
}

/// Softmax of the rows of a warp so far. A lane sums its own columns; row_sum at the end adds the four.
template <int kRowTiles>
struct Softmax {
  PerRow<float, kRowTiles> largest, total;
};

/// Scores become exp(scale (score - largest)), and what was summed with a smaller maximum shrinks. exp2_scale is scale
/// in units of log 2.
template <int kRowTiles, int kKeyTiles, int kColumns>
__device__ __forceinline__ void soften(Fragments<kRowTiles, kKeyTiles>& scores, Softmax<kRowTiles>& softmax,
                                       Fragments<kRowTiles, kColumns>& sums, float exp2_scale) {
#pragma unroll
  for (int index = 0; index < 2 * kRowTiles; ++index) {
    const int r = index / 2, e = index % 2 * 2;
    float largest = softmax.largest[index];
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) largest = fmaxf(largest, fmaxf(scores[r][n][e], scores[r][n][e + 1]));
    largest = row_max(largest);
    // A row that has seen nothing yet is shifted by 0: its terms are exp(-infinity).
    const float shift = largest == -INFINITY ? 0.0f : largest * exp2_scale;
    const float shrink = exp2_approximate(softmax.largest[index] * exp2_scale - shift);
    float total = 0;
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n)
#pragma unroll
      for (int i = e; i < e + 2; ++i) {
        scores[r][n][i] = exp2_approximate(scores[r][n][i] * exp2_scale - shift);
        total += scores[r][n][i];
      }
    softmax.largest[index] = largest;
    softmax.total[index] = softmax.total[index] * shrink + total;
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      sums[r][n][e] *= shrink;
      sums[r][n][e + 1] *= shrink;
    }
  }
}

/// Divides the sums by the totals, and stores the logarithms of these.
template <int kRowTiles, int kColumns>
__device__ __forceinline__ void finish(Fragments<kRowTiles, kColumns>& sums, const Softmax<kRowTiles>& softmax,
                                       int first_row, const AttentionSizes& s, float* lse) {
#pragma unroll
  for (int index = 0; index < 2 * kRowTiles; ++index) {
    const int r = index / 2, e = index % 2 * 2, row = first_row + row_of_lane(index);
    const float total = row_sum(softmax.total[index]), inverse = 1.0f / total;
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      sums[r][n][e] *= inverse;
      sums[r][n][e + 1] *= inverse;
    }
    if (row < s.sequence && lane_index() % 4 == 0) lse[row] = softmax.largest[index] * s.scale + logf(total);
  }
}

template <int kHeadDim>
__global__ void __launch_bounds__(Tile<kHeadDim>::kThreads)
    forward_kernel(AttentionSizes s, const Bfloat16* __restrict__ q, const Bfloat16* __restrict__ k,
                   const Bfloat16* __restrict__ v, const int32_t* __restrict__ document_start,
                   Bfloat16* __restrict__ out, float* __restrict__ lse) {
  using Tile = Tile<kHeadDim>;
  DYNAMIC_SHARED(Bfloat16, queries);
  Bfloat16* const keys = queries + Tile::kQueries * Tile::kStride;
  Bfloat16* const values = keys + Tile::kKeys * Tile::kStride;
  Bfloat16* const own_queries = queries + warp_index() * Tile::kRowsOfWarp * Tile::kStride;

  const BlockPlace at = block_place<Owner::kQueries>(s, Tile::kQueries);
  const int32_t* const starts = starts_of_row(s, document_start, at.batch);
  const HeadRows<const Bfloat16> key_rows = head_rows(s, k, s.kv_heads, at.batch, at.head / s.share);
  const HeadRows<const Bfloat16> value_rows = head_rows(s, v, s.kv_heads, at.batch, at.head / s.share);
  const Range seen = visible_from_rows<Owner::kQueries>(s, starts, at.first_row, at.first_row + Tile::kQueries - 1);
  const int own_first = at.first_row + warp_index() * Tile::kRowsOfWarp;
  SHARED_ARRAY(Range, visible, Tile::kQueries);
  find_visible<Owner::kQueries, Tile::kQueries, Tile::kThreads>(visible, s, starts, at.first_row);
  const Range* const own_visible = visible + warp_index() * Tile::kRowsOfWarp;

  Fragments<Tile::kRowTiles, kHeadDim / 8> sums = {};
  Softmax<Tile::kRowTiles> softmax;
#pragma unroll
  for (int index = 0; index < 2 * Tile::kRowTiles; ++index)
    softmax.largest[index] = -INFINITY, softmax.total[index] = 0;

  copy_tile<Tile::kQueries, kHeadDim, Tile::kThreads>(queries, head_rows(s, q, s.query_heads, at.batch, at.head),
                                                      at.first_row, s);
  copy_tile<Tile::kKeys, kHeadDim, Tile::kThreads>(keys, key_rows, seen.first, s);
  copy_async_commit();
  for (int first = seen.first; first <= seen.last; first += Tile::kKeys) {
    copy_async_wait<0>();
    __syncthreads();  // the keys are there, and the values of the tile before are read
    copy_tile<Tile::kKeys, kHeadDim, Tile::kThreads>(values, value_rows, first, s);
    copy_async_commit();
    const bool concerned = any_visible<Tile::kRowsOfWarp>(own_visible, first, Tile::kKeys);
    Fragments<Tile::kRowTiles, Tile::kKeys / 8> scores = {};
    if (concerned) {
      multiply_rows<kHeadDim>(scores, own_queries, keys);
      hide(scores, own_visible, first);
      soften(scores, softmax, sums, s.scale * kLog2E);
    }
    copy_async_wait<0>();
    __syncthreads();  // the values are there, and the keys are read
    if (first + Tile::kKeys <= seen.last)
      copy_tile<Tile::kKeys, kHeadDim, Tile::kThreads>(keys, key_rows, first + Tile::kKeys, s);
    copy_async_commit();
    if (concerned) add_weighted_rows<kHeadDim>(sums, scores, values);
  }
  finish(sums, softmax, own_first, s, lse + head_list(s, at.batch, at.head));
  store_rows<kHeadDim, Tile::kRowTiles>(sums, own_queries, head_rows(s, out, s.query_heads, at.batch, at.head),
                                        own_first, s);
}

}  // namespace

void forward(const AttentionShape& shape, ConstReals q, ConstReals k, ConstReals v, const int32_t* document_start,
             Reals out, float* lse) {
  with_head_dim(shape.head_dim, [&]<int kHeadDim>(HeadDim<kHeadDim>) {
    using Tile = Tile<kHeadDim>;
    launch_with_shared(forward_kernel<kHeadDim>,
                       {attention_blocks(shape, shape.query_heads, Tile::kQueries), Tile::kThreads, Tile::kSharedBytes},
                       context().compute_stream(), attention_sizes(shape), stored<Bfloat16>(q), stored<Bfloat16>(k),
                       stored<Bfloat16>(v), document_start, stored<Bfloat16>(out), lse);
  });
}

}  // namespace heddle::cuda::attention_on_tensor_cores
