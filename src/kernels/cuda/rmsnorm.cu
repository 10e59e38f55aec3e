// RMSNorm. The threads of a row add up its squares, then find the row in cache when they write the result: memory is
// read once. Short rows (heads) have a warp each, long ones a block.
#include "cuda/scratch.h"
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/stored.h"

namespace heddle::cuda {

namespace {

constexpr int64_t kWidestOfWarp = 1024;
/// Parts of the rows in the backward pass: blocks that a large GPU holds at once, so that all end together.
constexpr int kBlocksOfMultiprocessor = 4, kMostParts = kBlocksOfMultiprocessor * 132;

/// Who works on a row: kOfBlock, all of the block, else a warp.
template <bool kOfBlock>
struct Team {
  static constexpr int kThreadsOfRow = kOfBlock ? kThreads : kWarpSize;
  static constexpr int kTeams = kThreads / kThreadsOfRow;  ///< in a block
  static __device__ int thread() { return static_cast<int>(threadIdx.x) % kThreadsOfRow; }
  static __device__ int team() { return static_cast<int>(threadIdx.x) / kThreadsOfRow; }
  static __device__ float sum(float value) {
    if constexpr (kOfBlock)
      return block_sum(value);
    else
      return warp_sum(value);
  }
};

template <typename T, bool kOfBlock>
__global__ void __launch_bounds__(kThreads) forward_kernel(int64_t rows, int64_t width, float eps, const T* x,
                                                           const float* __restrict__ gain, T* y, float* inverse_rms) {
  using Row = Team<kOfBlock>;
  constexpr int kPack = kPackSize<T>, kStep = Row::kThreadsOfRow * kPack;
  const int64_t r = int64_t{blockIdx.x} * Row::kTeams + Row::team();
  if (r >= rows) return;  // never with a block for each row: no thread misses a barrier
  float square = 0;
#pragma unroll 2
  for (int64_t d = Row::thread() * kPack; d < width; d += kStep) {
    const auto value = load<kPack>(x + r * width, d, width);
#pragma unroll
    for (int i = 0; i < kPack; ++i) square += value[i] * value[i];
  }
  const float inverse = 1.0f / sqrtf(Row::sum(square) / static_cast<float>(width) + eps);
  if (Row::thread() == 0) inverse_rms[r] = inverse;
  for (int64_t d = Row::thread() * kPack; d < width; d += kStep) {
    const auto value = load<kPack>(x + r * width, d, width);
    const auto factor = load<kPack>(gain, d, width);
    float result[kPack];
#pragma unroll
    for (int i = 0; i < kPack; ++i) result[i] = (gain == nullptr ? 1.0f : factor[i]) * value[i] * inverse;
    store(y + r * width, d, width, result);
  }
}

/// dx (+ old_dx) unless dx is null, and unless `partials` is null the sums of dy * x * inverse_rms over a part of the
/// rows: [part, width], added up in shared memory (with in_shared; Team::kTeams rows of floats) or in `partials`
/// itself.
template <typename T, bool kOfBlock>
__global__ void __launch_bounds__(kThreads, kBlocksOfMultiprocessor)
    backward_kernel(int64_t rows, int64_t width, int64_t rows_of_part, const T* x, const float* __restrict__ gain,
                    const float* __restrict__ inverse_rms, const T* dy, const T* old_dx, T* dx, float* partials,
                    bool in_shared) {
  using Row = Team<kOfBlock>;
  constexpr int kPack = kPackSize<T>, kStep = Row::kThreadsOfRow * kPack;
  DYNAMIC_SHARED(float, shared);
  float* const partial = row_of(partials, blockIdx.x, width);
  // A thread has the same columns in every row, so that it alone adds to their sums.
  float* const sums = in_shared && partials != nullptr ? shared + Row::team() * width : partial;
  if (sums != nullptr)
    for (int64_t d = Row::thread() * kPack; d < width; d += kStep)
      for (int64_t i = d; i < d + kPack && i < width; ++i) sums[i] = 0;
  const int64_t first = blockIdx.x * rows_of_part, end = first + rows_of_part < rows ? first + rows_of_part : rows;
  for (int64_t r = first + Row::team(); r < end; r += Row::kTeams) {
    const float inverse = inverse_rms[r];
    float dot = 0;
    if (dx != nullptr) {
#pragma unroll 2
      for (int64_t d = Row::thread() * kPack; d < width; d += kStep) {
        const auto value = load<kPack>(x + r * width, d, width);
        const auto gradient = load<kPack>(dy + r * width, d, width);
        const auto factor = load<kPack>(gain, d, width);
#pragma unroll
        for (int i = 0; i < kPack; ++i) dot += (gain == nullptr ? 1.0f : factor[i]) * gradient[i] * value[i];
      }
      dot = Row::sum(dot);
    }
    const float pull = dot * inverse * inverse * inverse / static_cast<float>(width);
    for (int64_t d = Row::thread() * kPack; d < width; d += kStep) {
      const auto value = load<kPack>(x + r * width, d, width);
      const auto gradient = load<kPack>(dy + r * width, d, width);
      const auto factor = load<kPack>(gain, d, width);
      const auto old = load<kPack>(row_of(old_dx, r, width), d, width);
      const auto sum = load<kPack>(static_cast<const float*>(sums), d, width);
      float result[kPack], added[kPack];
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        result[i] = old[i] + ((gain == nullptr ? 1.0f : factor[i]) * gradient[i] * inverse - value[i] * pull);
        added[i] = sum[i] + gradient[i] * value[i] * inverse;
      }
      store(row_of(dx, r, width), d, width, result);
      store(sums, d, width, added);
    }
  }
  if (sums == partial) return;
  __syncthreads();
  for (int64_t d = threadIdx.x; d < width; d += kThreads) {
    float total = 0;
    for (int team = 0; team < Row::kTeams; ++team) total += shared[team * width + d];
    partial[d] = total;
  }
}

/// Calls function(std::bool_constant) with whether rows of this width have a block each.
template <typename Function>
void with_team(int64_t width, const Function& function) {
  if (width <= kWidestOfWarp)
    function(std::false_type());
  else
    function(std::true_type());
}

constexpr int64_t kMostShared = 48 << 10;  ///< bytes that a kernel has without asking

}  // namespace

void rmsnorm_forward(int64_t rows, int64_t width, float eps, ConstReals x, const float* gain, Reals y,
                     float* inverse_rms) {
  if (rows == 0) return;
  with_stored(common_type({x, y}), [&]<typename T>(T) {
    with_team(width, [&]<bool kOfBlock>(std::bool_constant<kOfBlock>) {
      launch(forward_kernel<T, kOfBlock>, {block_count(rows, Team<kOfBlock>::kTeams), kThreads},
             context().compute_stream(), rows, width, eps, stored<T>(x), gain, stored<T>(y), inverse_rms);
    });
  });
}

void rmsnorm_backward(int64_t rows, int64_t width, ConstReals x, const float* gain, const float* inverse_rms,
                      ConstReals dy, RealsGradient dx, GradientOut dgain) {
  if (!dx && !dgain) return;
  const RowParts parts = cut_rows(rows, kMostParts, kWarps);
  const int64_t partial_count = dgain ? parts.count * width : 0;
  Scratch scratch(Scratch::bytes_of<float>(partial_count));
  float* const partials = dgain ? scratch.take<float>(partial_count) : nullptr;
  if (rows > 0) {
    with_stored(common_type({x, dy, dx.data}), [&]<typename T>(T) {
      with_team(width, [&]<bool kOfBlock>(std::bool_constant<kOfBlock>) {
        const int64_t sums = Team<kOfBlock>::kTeams * width * static_cast<int64_t>(sizeof(float));
        const bool in_shared = sums <= kMostShared;
        T* const to = stored<T>(dx.data);
        launch(backward_kernel<T, kOfBlock>,
               {block_count(parts.count, 1), kThreads, static_cast<size_t>(dgain && in_shared ? sums : 16)},
               context().compute_stream(), rows, width, parts.rows, stored<T>(x), gain, inverse_rms, stored<T>(dy),
               dx.accumulate ? to : nullptr, to, partials, in_shared);
      });
    });
  }
  if (dgain) finish_columns<1>(parts.count, width, partials, StoreTotal{dgain.data, dgain.accumulate});
}

}  // namespace heddle::cuda
