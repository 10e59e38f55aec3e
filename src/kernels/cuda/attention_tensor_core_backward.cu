// Attention backward on tensor cores, without atomic additions: one kernel owns query rows and sums dq over the keys,
// another owns key rows and sums dk and dv over the queries of all heads that share them. Both recompute
//   p = exp(scale q.k - lse),  ds = p (dout.v - delta)
// and differ in what is a row and what is a column:
//              own x, y    streamed x, y    gradient of own x          gradient of own y
//   queries    q, dout     k, v             dq = scale sum of ds k     (given)
//   keys       k, v        q, dout          dk = scale sum of ds q     dv = sum of p dout
// Scores are own x . streamed x, and gradients of probabilities own y . streamed y. While one tile is multiplied the
// next one is on its way.
#include "cuda/context.h"
#include "kernels/cuda/attention_paths.h"
#include "kernels/cuda/attention_tensor_core.cuh"
#include "kernels/cuda/stored.h"

namespace heddle::cuda::attention_on_tensor_cores {

namespace {

template <Owner kOwner, int kHeadDim>
struct Tile {
  static constexpr bool kOwnsKeys = kOwner == Owner::kKeys;
  static constexpr int kWarps = 4, kThreads = kWarps * kWarpSize;
  // As much as the registers hold: wide tiles read shared memory less often for each product.
  static constexpr bool kWide = kHeadDim <= 64;
  static constexpr int kRowTiles = kWide ? 2 : 1, kRowsOfWarp = 16 * kRowTiles;
  static constexpr int kOwned = kWarps * kRowsOfWarp, kStreamed = kHeadDim == 96 && !kOwnsKeys ? 64 : 32;
  static constexpr int kStride = kTileStride<kHeadDim>;
  static constexpr size_t kListBytes = sizeof(float) * (kOwnsKeys ? 4 * kStreamed : 0);
  static constexpr size_t kSharedBytes = kListBytes + sizeof(Bfloat16) * (2 * kOwned + 4 * kStreamed) * kStride;
};

/// One of the two buffers that streamed rows arrive in. The lists exist where these are queries.
struct StreamedTile {
  Bfloat16 *x, *y;
  float *lse, *delta;
};

/// The shared memory of a block.
template <typename Tile>
struct Buffers {
  Bfloat16 *own_x, *own_y, *streamed;
  float* lists;

  __device__ explicit Buffers(unsigned char* memory)
      : own_x(reinterpret_cast<Bfloat16*>(memory + Tile::kListBytes)),
        own_y(own_x + Tile::kOwned * Tile::kStride),
        streamed(own_y + Tile::kOwned * Tile::kStride),
        lists(reinterpret_cast<float*>(memory)) {}

  __device__ StreamedTile tile(int turn) const {
    const int which = turn % 2;
    Bfloat16* const x = streamed + which * 2 * Tile::kStreamed * Tile::kStride;
    float* const lse = lists + which * 2 * Tile::kStreamed;
    return {x, x + Tile::kStreamed * Tile::kStride, lse, lse + Tile::kStreamed};
  }
};

/// lse and delta of the queries of a tile; 0 behind the sequence, where dout is 0 too.
template <typename Tile>
__device__ __forceinline__ void copy_lists(const StreamedTile& to, const float* lse, const float* delta, int first,
                                           const AttentionSizes& s) {
  for (int i = static_cast<int>(threadIdx.x); i < Tile::kStreamed; i += Tile::kThreads) {
    const bool inside = first + i < s.sequence;
    copy_async<4>(to.lse + i, inside ? lse + first + i : lse, inside);
    copy_async<4>(to.delta + i, inside ? delta + first + i : delta, inside);
  }
}

/// What an element needs of its query: lse in units of log 2, and delta.
struct Terms {
  float lse, delta;
};

/// Terms of the queries that are the rows of a lane.
template <int kRowTiles>
__device__ __forceinline__ void load_terms(PerRow<Terms, kRowTiles>& terms, const float* lse, const float* delta,
                                           int first_row, const AttentionSizes& s) {
#pragma unroll
  for (int index = 0; index < 2 * kRowTiles; ++index) {
    const int row = min(first_row + row_of_lane(index), s.sequence - 1);
    terms[index] = {lse[row] * kLog2E, delta[row]};
  }
}

/// Terms of the two neighbouring queries that are columns of a lane, from the lists of a tile.
__device__ __forceinline__ void load_terms(Terms (&terms)[2], const StreamedTile& tile, int column) {
  const auto lse = *reinterpret_cast<const float2*>(tile.lse + column);
  const auto delta = *reinterpret_cast<const float2*>(tile.delta + column);
  terms[0] = {lse.x * kLog2E, delta.x};
  terms[1] = {lse.y * kLog2E, delta.y};
}

/// Scores become probabilities, and their gradients those of the scores (without scale).
template <Owner kOwner, int kRowTiles, int kColumnTiles>
__device__ __forceinline__ void differentiate(Fragments<kRowTiles, kColumnTiles>& scores,
                                              Fragments<kRowTiles, kColumnTiles>& gradients, float exp2_scale,
                                              const PerRow<Terms, kRowTiles>& row_terms, const StreamedTile& tile) {
#pragma unroll
  for (int n = 0; n < kColumnTiles; ++n) {
    Terms column_terms[2];
    if constexpr (kOwner == Owner::kKeys) load_terms(column_terms, tile, 8 * n + column_of_lane());
#pragma unroll
    for (int index = 0; index < 2 * kRowTiles; ++index)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const Terms& of = kOwner == Owner::kKeys ? column_terms[i] : row_terms[index];
        float& score = scores[index / 2][n][index % 2 * 2 + i];
        float& gradient = gradients[index / 2][n][index % 2 * 2 + i];
        score = exp2_approximate(score * exp2_scale - of.lse);
        gradient = score * (gradient - of.delta);
      }
  }
}

template <int kRowTiles, int kColumns>
__device__ __forceinline__ void scale_all(Fragments<kRowTiles, kColumns>& sums, float factor) {
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
    for (int n = 0; n < kColumns; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[r][n][e] *= factor;
}

template <Owner kOwner, int kHeadDim>
__global__ void __launch_bounds__(Tile<kOwner, kHeadDim>::kThreads)
    backward_kernel(AttentionSizes s, const Bfloat16* __restrict__ own_x, const Bfloat16* __restrict__ own_y,
                    const Bfloat16* __restrict__ streamed_x, const Bfloat16* __restrict__ streamed_y,
                    const int32_t* __restrict__ document_start, const float* __restrict__ lse,
                    const float* __restrict__ delta, Bfloat16* __restrict__ own_dx, Bfloat16* __restrict__ own_dy) {
  using Tile = Tile<kOwner, kHeadDim>;
  constexpr bool kOwnsKeys = Tile::kOwnsKeys;
  DYNAMIC_SHARED(unsigned char, memory);
  SHARED_ARRAY(Range, visible, Tile::kOwned);
  const Buffers<Tile> buffers(memory);

  const BlockPlace at = block_place<kOwner>(s, Tile::kOwned);
  const int32_t* const starts = starts_of_row(s, document_start, at.batch);
  const int own_heads = kOwnsKeys ? s.kv_heads : s.query_heads, other_heads = kOwnsKeys ? s.query_heads : s.kv_heads;
  const int first_head = kOwnsKeys ? at.head * s.share : at.head / s.share, heads = kOwnsKeys ? s.share : 1;
  const Range seen = visible_from_rows<kOwner>(s, starts, at.first_row, at.first_row + Tile::kOwned - 1);
  const int tiles = (seen.last - seen.first) / Tile::kStreamed + 1;

  const auto start_copy = [&](int turn) {
    const StreamedTile to = buffers.tile(turn);
    const int head = first_head + turn / tiles, first = seen.first + turn % tiles * Tile::kStreamed;
    copy_tile<Tile::kStreamed, kHeadDim, Tile::kThreads>(to.x, head_rows(s, streamed_x, other_heads, at.batch, head),
                                                         first, s);
    copy_tile<Tile::kStreamed, kHeadDim, Tile::kThreads>(to.y, head_rows(s, streamed_y, other_heads, at.batch, head),
                                                         first, s);
    if constexpr (kOwnsKeys) {
      const int64_t list = head_list(s, at.batch, head);
      copy_lists<Tile>(to, lse + list, delta + list, first, s);
    }
    copy_async_commit();
  };
  copy_tile<Tile::kOwned, kHeadDim, Tile::kThreads>(buffers.own_x, head_rows(s, own_x, own_heads, at.batch, at.head),
                                                    at.first_row, s);
  copy_tile<Tile::kOwned, kHeadDim, Tile::kThreads>(buffers.own_y, head_rows(s, own_y, own_heads, at.batch, at.head),
                                                    at.first_row, s);
  start_copy(0);
  find_visible<kOwner, Tile::kOwned, Tile::kThreads>(visible, s, starts, at.first_row);

  const int first_of_warp = warp_index() * Tile::kRowsOfWarp;
  const Range* const warp_visible = visible + first_of_warp;
  Bfloat16* const warp_x = buffers.own_x + first_of_warp * Tile::kStride;
  Bfloat16* const warp_y = buffers.own_y + first_of_warp * Tile::kStride;
  PerRow<Terms, Tile::kRowTiles> row_terms;
  if constexpr (!kOwnsKeys) {
    const int64_t list = head_list(s, at.batch, at.head);
    load_terms<Tile::kRowTiles>(row_terms, lse + list, delta + list, at.first_row + first_of_warp, s);
  }

  Fragments<Tile::kRowTiles, kHeadDim / 8> dx = {};
  Fragments<kOwnsKeys ? Tile::kRowTiles : 1, kHeadDim / 8> dy = {};
  for (int turn = 0; turn < heads * tiles; ++turn) {
    copy_async_wait<0>();
    __syncthreads();  // this tile is there, and the one before is read
    if (turn + 1 < heads * tiles) start_copy(turn + 1);
    const StreamedTile streamed = buffers.tile(turn);
    const int first = seen.first + turn % tiles * Tile::kStreamed;
    if (!any_visible<Tile::kRowsOfWarp>(warp_visible, first, Tile::kStreamed)) continue;
    Fragments<Tile::kRowTiles, Tile::kStreamed / 8> scores = {}, gradients = {};
    multiply_rows<kHeadDim>(scores, warp_x, streamed.x);
    hide(scores, warp_visible, first);
    multiply_rows<kHeadDim>(gradients, warp_y, streamed.y);
    differentiate<kOwner>(scores, gradients, s.scale * kLog2E, row_terms, streamed);
    if constexpr (kOwnsKeys) add_weighted_rows<kHeadDim>(dy, scores, streamed.y);
    add_weighted_rows<kHeadDim>(dx, gradients, streamed.x);
  }
  scale_all(dx, s.scale);
  const int first_row = at.first_row + first_of_warp;
  store_rows<kHeadDim, Tile::kRowTiles>(dx, warp_x, head_rows(s, own_dx, own_heads, at.batch, at.head), first_row, s);
  if constexpr (kOwnsKeys)
    store_rows<kHeadDim, Tile::kRowTiles>(dy, warp_y, head_rows(s, own_dy, own_heads, at.batch, at.head), first_row, s);
}

template <Owner kOwner>
void launch_backward(const AttentionShape& shape, int64_t own_heads, ConstReals own_x, ConstReals own_y,
                     ConstReals streamed_x, ConstReals streamed_y, const AttentionGradientInputs& in, Reals own_dx,
                     Reals own_dy) {
  with_head_dim(shape.head_dim, [&]<int kHeadDim>(HeadDim<kHeadDim>) {
    using Tile = Tile<kOwner, kHeadDim>;
    launch_with_shared(backward_kernel<kOwner, kHeadDim>,
                       {attention_blocks(shape, own_heads, Tile::kOwned), Tile::kThreads, Tile::kSharedBytes},
                       context().compute_stream(), attention_sizes(shape), stored<Bfloat16>(own_x),
                       stored<Bfloat16>(own_y), stored<Bfloat16>(streamed_x), stored<Bfloat16>(streamed_y),
                       in.document_start, in.lse, in.delta, stored<Bfloat16>(own_dx), stored<Bfloat16>(own_dy));
  });
}

}  // namespace

void query_gradient(const AttentionShape& shape, const AttentionGradientInputs& in, Reals dq) {
  launch_backward<Owner::kQueries>(shape, shape.query_heads, in.q, in.dout, in.k, in.v, in, dq, {});
}

void key_gradient(const AttentionShape& shape, const AttentionGradientInputs& in, Reals dk, Reals dv) {
  launch_backward<Owner::kKeys>(shape, shape.kv_heads, in.k, in.v, in.q, in.dout, in, dk, dv);
}

}  // namespace heddle::cuda::attention_on_tensor_cores
