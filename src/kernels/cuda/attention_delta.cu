// What the backward pass of attention calculates first: delta = out . dout of each query, which is the sum of its
// probabilities times their gradients.
#include "cuda/context.h"
#include "kernels/cuda/attention_paths.h"
#include "kernels/cuda/attention_places.cuh"
#include "kernels/cuda/stored.h"

namespace heddle::cuda {

namespace {

constexpr int kThreads = 256;

/// A lane's share of the product of two rows, for rows of whole packs and others.
template <typename T, bool kPacks>
__device__ __forceinline__ float part_of_dot(const T* a, const T* b, int count) {
  float sum = 0;
  if constexpr (kPacks) {
    constexpr int kSize = Pack<T>::kSize;
    for (int at = lane_index() * kSize; at < count; at += kWarpSize * kSize) {
      const Pack<T> x = load_pack(a + at), y = load_pack(b + at);
#pragma unroll
      for (int i = 0; i < kSize; ++i) sum += to_float(x.values[i]) * to_float(y.values[i]);
    }
  } else {
    for (int at = lane_index(); at < count; at += kWarpSize) sum += to_float(a[at]) * to_float(b[at]);
  }
  return sum;
}

/// delta[batch, head, position] = out . dout; a warp for each row of a head, in the order of the tensors.
template <typename T, bool kPacks>
__global__ void __launch_bounds__(kThreads) delta_kernel(const T* __restrict__ out, const T* __restrict__ dout,
                                                         int64_t rows, AttentionSizes s, float* __restrict__ delta) {
  const int64_t row = int64_t{blockIdx.x} * warps_of_block() + warp_index();
  if (row >= rows) return;
  const float sum = warp_sum(part_of_dot<T, kPacks>(out + row * s.head_dim, dout + row * s.head_dim, s.head_dim));
  const int64_t position = row / s.query_heads, batch = position / s.sequence;
  const int head = static_cast<int>(row % s.query_heads);
  if (lane_index() == 0) delta[head_list(s, batch, head) + position % s.sequence] = sum;
}

}  // namespace

void attention_delta(const AttentionShape& shape, ConstReals out, ConstReals dout, float* delta) {
  const AttentionSizes s = attention_sizes(shape);
  const int64_t rows = shape.batch * shape.sequence * shape.query_heads;
  const bool packs = s.head_dim * real_bytes(out.type) % 16 == 0 && in_whole_packs(out) && in_whole_packs(dout);
  with_stored(out.type, [&]<typename T>(T) {
    launch(packs ? delta_kernel<T, true> : delta_kernel<T, false>, {block_count(rows, kThreads / kWarpSize), kThreads},
           context().compute_stream(), stored<T>(out), stored<T>(dout), rows, s, delta);
  });
}

}  // namespace heddle::cuda
