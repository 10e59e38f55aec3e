// Attention forward in float: a block owns query rows of one head and walks over the keys that they see.
#include "cuda/context.h"
#include "kernels/cuda/attention_paths.h"
#include "kernels/cuda/attention_plain.cuh"
#include "kernels/cuda/stored.h"

namespace heddle::cuda::attention_plain {

namespace {

/// Over the 16 threads that share four rows.
__device__ __forceinline__ float row_max(float value) {
#pragma unroll
  for (int distance = kSide / 2; distance > 0; distance /= 2)
    value = fmaxf(value, __shfl_xor_sync(kFullWarp, value, distance));
  return value;
}
__device__ __forceinline__ float row_sum(float value) {
#pragma unroll
  for (int distance = kSide / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(kFullWarp, value, distance);
  return value;
}

/// Softmax of the rows of a patch so far. A thread sums its own columns; row_sum at the end adds the sixteen.
struct Softmax {
  float largest[kPatch], total[kPatch];
};

/// Scores become exp(scale score - largest), 0 for keys that a row does not see; what was summed with a smaller maximum
/// shrinks. `visible` is the list from the patch's first row on, `first` the key of its first column.
template <int kColumns>
__device__ __forceinline__ void soften(Patch& scores, Softmax& softmax, Sums<kColumns>& sums, const Range* visible,
                                       int first, float scale) {
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
    const Range seen = visible[i];
    float largest = softmax.largest[i];
#pragma unroll
    for (int j = 0; j < kPatch; ++j) {
      scores[i][j] = seen.contains(first + j) ? scores[i][j] * scale : -INFINITY;
      largest = fmaxf(largest, scores[i][j]);
    }
    largest = row_max(largest);
    // A row that has seen nothing yet is shifted by 0: its terms are exp(-infinity).
    const float shift = largest == -INFINITY ? 0.0f : largest;
    const float shrink = expf(softmax.largest[i] - shift);
    float total = 0;
#pragma unroll
    for (int j = 0; j < kPatch; ++j) {
      scores[i][j] = expf(scores[i][j] - shift);
      total += scores[i][j];
    }
    softmax.largest[i] = largest;
    softmax.total[i] = softmax.total[i] * shrink + total;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) sums[i][c] *= shrink;
  }
}

template <int kColumns>
constexpr size_t kSharedBytes = sizeof(float) * (2 * kChunkFloats + kWeightFloats + kTile * kSide * kColumns);

template <typename T, int kColumns>
__global__ void __launch_bounds__(kThreads, 2)
    forward_kernel(AttentionSizes s, const T* __restrict__ q, const T* __restrict__ k, const T* __restrict__ v,
                   const int32_t* __restrict__ document_start, T* __restrict__ out, float* __restrict__ lse) {
  DYNAMIC_SHARED(float, chunks);
  float* const weights = chunks + 2 * kChunkFloats;
  float* const values = weights + kWeightFloats;

  const BlockPlace at = block_place<Owner::kQueries>(s, kTile);
  const int first_column = static_cast<int>(blockIdx.y) * kSide * kColumns;
  const int32_t* const starts = starts_of_row(s, document_start, at.batch);
  const HeadRows<const T> queries = head_rows(s, q, s.query_heads, at.batch, at.head);
  const HeadRows<const T> key_rows = head_rows(s, k, s.kv_heads, at.batch, at.head / s.share);
  const HeadRows<const T> value_rows = head_rows(s, v, s.kv_heads, at.batch, at.head / s.share);
  const Range seen = visible_from_rows<Owner::kQueries>(s, starts, at.first_row, at.first_row + kTile - 1);
  SHARED_ARRAY(Range, visible, kTile);
  find_visible<Owner::kQueries, kTile, kThreads>(visible, s, starts, at.first_row);
  Softmax softmax;
#pragma unroll
  for (int i = 0; i < kPatch; ++i) softmax.largest[i] = -INFINITY, softmax.total[i] = 0;

  Sums<kColumns> sums = {};
  for (int first = seen.first; first <= seen.last; first += kTile) {
    Patch scores;
    multiply_rows(scores, chunks, queries, at.first_row, key_rows, first, s);
    soften<kColumns>(scores, softmax, sums, visible + patch_row(), first + patch_column(), s.scale);
    store_patch(weights, scores);
    load_values<kColumns>(values, value_rows, first, first_column, s);
    __syncthreads();
    add_weighted_rows<kColumns>(sums, weights, values);
  }

  float inverse[kPatch];
#pragma unroll
  for (int i = 0; i < kPatch; ++i) {
    const float total = row_sum(softmax.total[i]);
    inverse[i] = 1.0f / total;
    const int row = at.first_row + patch_row() + i;
    if (row < s.sequence && patch_column() == 0 && first_column == 0)
      lse[head_list(s, at.batch, at.head) + row] = softmax.largest[i] + logf(total);
  }
  store_rows<kColumns>(sums, inverse, head_rows(s, out, s.query_heads, at.batch, at.head), at.first_row, first_column,
                       s);
}

}  // namespace

void forward(const AttentionShape& shape, ConstReals q, ConstReals k, ConstReals v, const int32_t* document_start,
             Reals out, float* lse) {
  with_stored(q.type, [&]<typename T>(T) {
    with_columns(shape.head_dim, [&]<int kColumns>(Columns<kColumns>) {
      launch_with_shared(forward_kernel<T, kColumns>,
                         {plain_grid(shape, shape.query_heads, kColumns), kThreads, kSharedBytes<kColumns>},
                         context().compute_stream(), attention_sizes(shape), stored<T>(q), stored<T>(k), stored<T>(v),
                         document_start, stored<T>(out), lse);
    });
  });
}

}  // namespace heddle::cuda::attention_plain
