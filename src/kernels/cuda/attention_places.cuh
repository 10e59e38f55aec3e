// Where the rows of a head lie, which positions see each other, and which tile a block works on: common to all
// attention kernels.
#pragma once

#include "cuda/device.cuh"
#include "kernels/cuda/attention_sizes.h"

namespace heddle::cuda {

/// The rows of one head in one row of the batch, by position.
template <typename T>
struct HeadRows {
  T* first;
  int64_t stride;

  __device__ T* row(int position) const { return first + position * stride; }
};

/// In a tensor [batch*sequence, heads*head_dim].
template <typename T>
__device__ __forceinline__ HeadRows<T> head_rows(const AttentionSizes& s, T* tensor, int heads, int64_t batch,
                                                 int head) {
  const int64_t stride = int64_t{heads} * s.head_dim;
  return {tensor + batch * s.sequence * stride + int64_t{head} * s.head_dim, stride};
}

/// Where the values of one head begin in a list [batch, query_heads, sequence].
__device__ __forceinline__ int64_t head_list(const AttentionSizes& s, int64_t batch, int head) {
  return (batch * s.query_heads + head) * s.sequence;
}

/// The document starts of one row of the batch; nullptr where there is no list.
__device__ __forceinline__ const int32_t* starts_of_row(const AttentionSizes& s, const int32_t* document_start,
                                                        int64_t batch) {
  return document_start == nullptr ? nullptr : document_start + batch * s.sequence;
}

/// Positions first .. last, both included.
struct Range {
  int first, last;

  __device__ bool contains(int position) const { return position >= first && position <= last; }
};

/// Which tensor a backward kernel owns rows of; the other one streams past them.
enum class Owner { kQueries, kKeys };

/// The keys that a query sees. Positions behind the sequence count as its last one, here and below: their rows are
/// calculated along and not stored.
__device__ __forceinline__ Range visible_keys(const AttentionSizes& s, const int32_t* starts, int query) {
  query = min(query, s.sequence - 1);
  return {starts == nullptr ? 0 : starts[query], query};
}

/// The queries that see a key: from its own position to the end of its document, found by bisection, since starts do
/// not fall along a row.
__device__ __forceinline__ Range visible_queries(const AttentionSizes& s, const int32_t* starts, int key) {
  key = min(key, s.sequence - 1);
  if (starts == nullptr) return {key, s.sequence - 1};
  int last = key, behind = s.sequence;  // `last` sees the key, `behind` does not
  while (behind - last > 1) {
    const int middle = last + (behind - last) / 2;
    if (starts[middle] <= key)
      last = middle;
    else
      behind = middle;
  }
  return {key, last};
}

template <Owner kOwner>
__device__ __forceinline__ Range visible_from(const AttentionSizes& s, const int32_t* starts, int position) {
  if constexpr (kOwner == Owner::kQueries)
    return visible_keys(s, starts, position);
  else
    return visible_queries(s, starts, position);
}

/// Fills the list of what each of a block's rows sees of the other side; complete after a barrier.
template <Owner kOwner, int kRows, int kThreads>
__device__ __forceinline__ void find_visible(Range* visible, const AttentionSizes& s, const int32_t* starts,
                                             int first_row) {
  for (int row = static_cast<int>(threadIdx.x); row < kRows; row += kThreads)
    visible[row] = visible_from<kOwner>(s, starts, first_row + row);
}

/// What of the other side any of the rows `first` .. `last` of the owner sees: both ends of what a row sees never fall
/// from row to row.
template <Owner kOwner>
__device__ __forceinline__ Range visible_from_rows(const AttentionSizes& s, const int32_t* starts, int first,
                                                   int last) {
  return {visible_from<kOwner>(s, starts, first).first, visible_from<kOwner>(s, starts, last).last};
}

/// The tile of rows that a block owns.
struct BlockPlace {
  int64_t batch;
  int head, first_row;
};

/// Blocks of one head follow each other, since they read the same rows of the other side; in each head the tiles with
/// the most work come first. The grid is attention_blocks.
template <Owner kOwner>
__device__ __forceinline__ BlockPlace block_place(const AttentionSizes& s, int tile_rows) {
  const auto tiles = static_cast<unsigned>((s.sequence + tile_rows - 1) / tile_rows);
  const auto heads = static_cast<unsigned>(kOwner == Owner::kQueries ? s.query_heads : s.kv_heads);
  const unsigned item = blockIdx.x / tiles, turn = blockIdx.x % tiles;
  const unsigned tile = kOwner == Owner::kQueries ? tiles - 1 - turn : turn;
  return {item / heads, static_cast<int>(item % heads), static_cast<int>(tile) * tile_rows};
}

/// Launches a kernel that may want more than 48 KiB of shared memory.
template <typename... Parameters, typename... Arguments>
void launch_with_shared(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream,
                        Arguments&&... arguments) {
  allow_dynamic_shared(kernel, static_cast<int>(shape.dynamic_shared_bytes));
  launch(kernel, shape, stream, arguments...);
}

}  // namespace heddle::cuda
