// Rotary positions: a warp for each row; a lane turns a pack of the first half of a head with its partners in the
// second.
#include "cuda/context.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/stored.h"
#include "kernels/cuda/vectors.cuh"

namespace heddle::cuda {

namespace {

/// A row has fewer than 2^32 packs, and their numbers are divided as such.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    rotary_kernel(int64_t rows, unsigned heads, int64_t half, const int32_t* __restrict__ position,
                  const float* __restrict__ cosine, const float* __restrict__ sine, float sign, const T* x, T* y) {
  constexpr int kPack = kPackSize<T>;
  const int64_t r = int64_t{blockIdx.x} * kWarps + warp_index();
  if (r >= rows) return;
  const float* const cosines = cosine + position[r] * half;
  const float* const sines = sine + position[r] * half;
  const auto packs_of_half = static_cast<unsigned>((half + kPack - 1) / kPack);
#pragma unroll 2
  for (unsigned p = lane_index(); p < heads * packs_of_half; p += kWarpSize) {
    const int64_t first = (r * heads + p / packs_of_half) * 2 * half;  // of the head
    const int64_t i = int64_t{p % packs_of_half} * kPack;
    const auto a = load<kPack>(x + first, i, half);
    const auto b = load<kPack>(x + first + half, i, half);
    const auto c = load<kPack>(cosines, i, half);
    const auto s = load<kPack>(sines, i, half);
    float to_a[kPack], to_b[kPack];
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      const float turn = sign * s[j];
      to_a[j] = a[j] * c[j] - b[j] * turn;
      to_b[j] = b[j] * c[j] + a[j] * turn;
    }
    store(y + first, i, half, to_a);
    store(y + first + half, i, half, to_b);
  }
}

}  // namespace

void rotary(int64_t rows, int64_t heads, int64_t head_dim, const int32_t* position, const float* cosine,
            const float* sine, bool inverse, ConstReals x, Reals y) {
  if (rows * heads * head_dim == 0) return;
  with_stored(common_type({x, y}), [&]<typename T>(T) {
    launch(rotary_kernel<T>, {block_count(rows, kWarps), kThreads}, context().compute_stream(), rows,
           block_count(heads, 1), head_dim / 2, position, cosine, sine, inverse ? -1.0f : 1.0f, stored<T>(x),
           stored<T>(y));
  });
}

}  // namespace heddle::cuda
