// Statistics of states: how far rows of two matrices differ, and where rows point. A warp takes a row, or a strip of
// columns of some rows; sums are in double, in an order that the shape decides.
#include "cuda/scratch.h"
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/partial_sums.h"
#include "kernels/cuda/stored.h"

namespace heddle::cuda {

namespace {

__device__ __forceinline__ double square(double x) {
  return x * x;
}

/// sums [4, blocks].
template <typename T>
__global__ void __launch_bounds__(kThreads) comparison_kernel(int64_t rows, int64_t width, const T* __restrict__ a,
                                                              const T* __restrict__ b, double* __restrict__ sums) {
  constexpr int kPack = kPackSize<T>;
  double totals[4] = {};
  const int64_t step = int64_t{gridDim.x} * kWarps;
  for (int64_t r = int64_t{blockIdx.x} * kWarps + warp_index(); r < rows; r += step) {
    const T *const row_a = a + r * width, *const row_b = b + r * width;
    double of_a = 0, of_b = 0, difference = 0, product = 0;
#pragma unroll 2
    for (int64_t d = lane_index() * kPack; d < width; d += kWarpSize * kPack) {
      const auto pack_a = load<kPack>(row_a, d, width);
      const auto pack_b = load<kPack>(row_b, d, width);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        const auto x = static_cast<double>(pack_a[i]), y = static_cast<double>(pack_b[i]);
        of_a += x * x;
        of_b += y * y;
        difference += square(x - y);
        product += x * y;
      }
    }
    totals[2] += difference;
    of_a = warp_sum(of_a);
    of_b = warp_sum(of_b);
    product = warp_sum(product);
    if (lane_index() != 0) continue;
    totals[0] += of_a;
    totals[1] += of_b;
    if (of_a != 0 && of_b != 0) totals[3] += product / sqrt(of_a * of_b);
  }
  for (int s = 0; s < 4; ++s) {
    const double total = block_sum(totals[s]);
    if (threadIdx.x == 0) sums[s * gridDim.x + blockIdx.x] = total;
  }
}

/// inverse [rows] = 1 / |row|, 0 for a row of zeros. A warp for each row.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    inverse_norm_kernel(int64_t rows, int64_t width, const T* __restrict__ x, double* __restrict__ inverse) {
  constexpr int kPack = kPackSize<T>;
  const int64_t r = int64_t{blockIdx.x} * kWarps + warp_index();
  if (r >= rows) return;
  double sum = 0;
#pragma unroll 4
  for (int64_t d = lane_index() * kPack; d < width; d += kWarpSize * kPack) {
    const auto pack = load<kPack>(x + r * width, d, width);
#pragma unroll
    for (int i = 0; i < kPack; ++i) sum += square(static_cast<double>(pack[i]));
  }
  sum = warp_sum(sum);
  if (lane_index() == 0) inverse[r] = sum == 0 ? 0 : 1 / sqrt(sum);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    unit_rows_kernel(int64_t rows, int64_t width, int64_t rows_of_part, const T* __restrict__ x,
                     const double* __restrict__ inverse, double* __restrict__ partials) {
  constexpr int kPack = kPackSize<T>;
  const int64_t strip = int64_t{blockIdx.x} * kWarpSize * kPack, part = blockIdx.y;
  const int64_t end = (part + 1) * rows_of_part < rows ? (part + 1) * rows_of_part : rows;
  double sums[1][kPack] = {};
#pragma unroll 4
  for (int64_t r = part * rows_of_part + warp_index(); r < end; r += kWarps) {
    const auto value = load<kPack>(x + r * width, strip + lane_index() * kPack, width);
#pragma unroll
    for (int i = 0; i < kPack; ++i) sums[0][i] += static_cast<double>(value[i]) * inverse[r];
  }
  store_partial_sums(sums, part, strip, width, partials);
}

struct AddTotal {
  double* to;
  __device__ void operator()(int64_t column, const double (&totals)[1]) const { to[column] += totals[0]; }
};

}  // namespace

void add_comparison(int64_t rows, int64_t width, ConstReals a, ConstReals b, double* sums) {
  if (rows * width == 0) return;
  const unsigned blocks = blocks_with_sums(rows, kWarps);
  Scratch scratch(Scratch::bytes_of<double>(int64_t{4} * blocks));
  auto* const partials = scratch.take<double>(int64_t{4} * blocks);
  with_stored(common_type({a, b}), [&]<typename T>(T) {
    launch(comparison_kernel<T>, {blocks, kThreads}, context().compute_stream(), rows, width, stored<T>(a),
           stored<T>(b), partials);
  });
  add_partial_sums(4, blocks, 1, partials, sums);
}

void add_unit_rows(int64_t rows, int64_t width, ConstReals x, double* sum) {
  if (rows * width == 0) return;
  with_stored(x.type, [&]<typename T>(T) {
    constexpr int kPack = kPackSize<T>;
    const RowParts parts = cut_rows_for_strips<kPack>(rows, width);
    Scratch scratch(Scratch::bytes_of<double>(rows) + Scratch::bytes_of<double>(parts.count * width));
    auto* const inverse = scratch.take<double>(rows);
    auto* const partials = scratch.take<double>(parts.count * width);
    const cudaStream_t stream = context().compute_stream();
    launch(inverse_norm_kernel<T>, {block_count(rows, kWarps), kThreads}, stream, rows, width, stored<T>(x), inverse);
    launch(unit_rows_kernel<T>, {{block_count(width, kWarpSize * kPack), block_count(parts.count, 1)}, kThreads},
           stream, rows, width, parts.rows, stored<T>(x), inverse, partials);
    finish_columns<1>(parts.count, width, partials, AddTotal{sum});
  });
}

}  // namespace heddle::cuda
