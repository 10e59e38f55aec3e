// Attention backward in float, by the same two kernels as on tensor cores (attention_tensor_core_backward.cu): one owns
// queries and sums dq, the other owns keys and sums dk and dv.
#include "cuda/context.h"
#include "kernels/cuda/attention_paths.h"
#include "kernels/cuda/attention_plain.cuh"
#include "kernels/cuda/stored.h"

namespace heddle::cuda::attention_plain {

namespace {

template <Owner kOwner, int kColumns>
constexpr size_t kSharedBytes = sizeof(float) * (2 * kChunkFloats + (kOwner == Owner::kKeys ? 2 : 1) * kWeightFloats +
                                                 kTile * kSide * kColumns);

/// Scores become probabilities, 0 where a row does not see a column, and their gradients those of the scores. lse and
/// delta begin at the first position of the batch row and head, `visible` at the patch's first row; `first_query`
/// belongs to the patch's corner, and `first` is the position of its first column.
template <Owner kOwner>
__device__ __forceinline__ void differentiate(Patch& scores, Patch& gradients, const Range* visible, int first_query,
                                              int first, const float* lse, const float* delta,
                                              const AttentionSizes& s) {
  float lse_of[kPatch], delta_of[kPatch];
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
    const int query = min(first_query + i, s.sequence - 1);
    lse_of[i] = lse[query], delta_of[i] = delta[query];
  }
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
    const Range seen = visible[i];
#pragma unroll
    for (int j = 0; j < kPatch; ++j) {
      const int of = kOwner == Owner::kQueries ? i : j;
      scores[i][j] = seen.contains(first + j) ? expf(scores[i][j] * s.scale - lse_of[of]) : 0.0f;
      gradients[i][j] = scores[i][j] * (gradients[i][j] - delta_of[of]);
    }
  }
}

template <Owner kOwner, typename T, int kColumns>
__global__ void __launch_bounds__(kThreads, 1)
    backward_kernel(AttentionSizes s, const T* __restrict__ own_x, const T* __restrict__ own_y,
                    const T* __restrict__ streamed_x, const T* __restrict__ streamed_y,
                    const int32_t* __restrict__ document_start, const float* __restrict__ lse,
                    const float* __restrict__ delta, T* __restrict__ own_dx, T* __restrict__ own_dy) {
  constexpr bool kOwnsKeys = kOwner == Owner::kKeys;
  DYNAMIC_SHARED(float, chunks);
  float* const weights_x = chunks + 2 * kChunkFloats;
  float* const weights_y = weights_x + kWeightFloats;  // of keys only
  float* const values = kOwnsKeys ? weights_y + kWeightFloats : weights_y;

  const BlockPlace at = block_place<kOwner>(s, kTile);
  const int first_column = static_cast<int>(blockIdx.y) * kSide * kColumns;
  const int32_t* const starts = starts_of_row(s, document_start, at.batch);
  const int own_heads = kOwnsKeys ? s.kv_heads : s.query_heads, other_heads = kOwnsKeys ? s.query_heads : s.kv_heads;
  const int first_head = kOwnsKeys ? at.head * s.share : at.head / s.share, heads = kOwnsKeys ? s.share : 1;
  const HeadRows<const T> x_rows = head_rows(s, own_x, own_heads, at.batch, at.head);
  const HeadRows<const T> y_rows = head_rows(s, own_y, own_heads, at.batch, at.head);
  const Range seen = visible_from_rows<kOwner>(s, starts, at.first_row, at.first_row + kTile - 1);
  SHARED_ARRAY(Range, visible, kTile);
  find_visible<kOwner, kTile, kThreads>(visible, s, starts, at.first_row);

  Sums<kColumns> dx = {}, dy = {};
  for (int head = first_head; head < first_head + heads; ++head) {
    const int64_t list = head_list(s, at.batch, kOwnsKeys ? head : at.head);
    const HeadRows<const T> other_x = head_rows(s, streamed_x, other_heads, at.batch, head);
    const HeadRows<const T> other_y = head_rows(s, streamed_y, other_heads, at.batch, head);
    for (int first = seen.first; first <= seen.last; first += kTile) {
      Patch scores, gradients;
      multiply_rows(scores, chunks, x_rows, at.first_row, other_x, first, s);
      multiply_rows(gradients, chunks, y_rows, at.first_row, other_y, first, s);
      const int first_query = kOwnsKeys ? first + patch_column() : at.first_row + patch_row();
      differentiate<kOwner>(scores, gradients, visible + patch_row(), first_query, first + patch_column(), lse + list,
                            delta + list, s);
      store_patch(weights_x, gradients);
      if constexpr (kOwnsKeys) {
        store_patch(weights_y, scores);
        load_values<kColumns>(values, other_y, first, first_column, s);
        __syncthreads();
        add_weighted_rows<kColumns>(dy, weights_y, values);
        __syncthreads();
      }
      load_values<kColumns>(values, other_x, first, first_column, s);
      __syncthreads();
      add_weighted_rows<kColumns>(dx, weights_x, values);
    }
  }
  const float scales[kPatch] = {s.scale, s.scale, s.scale, s.scale}, ones[kPatch] = {1, 1, 1, 1};
  store_rows<kColumns>(dx, scales, head_rows(s, own_dx, own_heads, at.batch, at.head), at.first_row, first_column, s);
  if constexpr (kOwnsKeys)
    store_rows<kColumns>(dy, ones, head_rows(s, own_dy, own_heads, at.batch, at.head), at.first_row, first_column, s);
}

template <Owner kOwner>
void launch_backward(const AttentionShape& shape, int64_t own_heads, ConstReals own_x, ConstReals own_y,
                     ConstReals streamed_x, ConstReals streamed_y, const AttentionGradientInputs& in, Reals own_dx,
                     Reals own_dy) {
  with_stored(own_x.type, [&]<typename T>(T) {
    with_columns(shape.head_dim, [&]<int kColumns>(Columns<kColumns>) {
      launch_with_shared(backward_kernel<kOwner, T, kColumns>,
                         {plain_grid(shape, own_heads, kColumns), kThreads, kSharedBytes<kOwner, kColumns>},
                         context().compute_stream(), attention_sizes(shape), stored<T>(own_x), stored<T>(own_y),
                         stored<T>(streamed_x), stored<T>(streamed_y), in.document_start, in.lse, in.delta,
                         stored<T>(own_dx), stored<T>(own_dy));
    });
  });
}

}  // namespace

void query_gradient(const AttentionShape& shape, const AttentionGradientInputs& in, Reals dq) {
  launch_backward<Owner::kQueries>(shape, shape.query_heads, in.q, in.dout, in.k, in.v, in, dq, {});
}

void key_gradient(const AttentionShape& shape, const AttentionGradientInputs& in, Reals dk, Reals dv) {
  launch_backward<Owner::kKeys>(shape, shape.kv_heads, in.k, in.v, in.q, in.dout, in, dk, dv);
}

}  // namespace heddle::cuda::attention_plain
