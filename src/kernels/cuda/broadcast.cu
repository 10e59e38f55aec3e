// One row for all rows, and modulations: a warp for each row. Sums over rows: column_sums.cuh.
#include "cuda/scratch.h"
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/stored.h"

namespace heddle::cuda {

namespace {

template <typename T>
__global__ void __launch_bounds__(kThreads)
    add_row_kernel(int64_t rows, int64_t width, const T* x, const float* __restrict__ row, T* out) {
  constexpr int kPack = kPackSize<T>;
  const int64_t r = int64_t{blockIdx.x} * kWarps + warp_index();
  if (r >= rows) return;
  for (int64_t d = lane_index() * kPack; d < width; d += kWarpSize * kPack) {
    const auto value = load<kPack>(x + r * width, d, width);
    const auto added = load<kPack>(row, d, width);
    float sum[kPack];
#pragma unroll
    for (int i = 0; i < kPack; ++i) sum[i] = value[i] + added[i];
    store(out + r * width, d, width, sum);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) sum_rows_kernel(int64_t rows, int64_t width, int64_t rows_of_part,
                                                            const T* __restrict__ x, float* __restrict__ partials) {
  constexpr int kPack = kPackSize<T>;
  const int64_t strip = int64_t{blockIdx.x} * kWarpSize * kPack, part = blockIdx.y;
  const int64_t end = (part + 1) * rows_of_part < rows ? (part + 1) * rows_of_part : rows;
  float sums[1][kPack] = {};
#pragma unroll 4
  for (int64_t r = part * rows_of_part + warp_index(); r < end; r += kWarps) {
    const auto value = load<kPack>(x + r * width, strip + lane_index() * kPack, width);
#pragma unroll
    for (int i = 0; i < kPack; ++i) sums[0][i] += value[i];
  }
  store_partial_sums(sums, part, strip, width, partials);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    modulate_kernel(int64_t rows, int64_t width, const T* x, const T* modulation, T* out) {
  constexpr int kPack = kPackSize<T>;
  const int64_t r = int64_t{blockIdx.x} * kWarps + warp_index();
  if (r >= rows) return;
  const T* const factor = modulation + 2 * r * width;
  for (int64_t d = lane_index() * kPack; d < width; d += kWarpSize * kPack) {
    const auto value = load<kPack>(x + r * width, d, width);
    const auto s = load<kPack>(factor, d, width);
    const auto b = load<kPack>(factor + width, d, width);
    float result[kPack];
#pragma unroll
    for (int i = 0; i < kPack; ++i) result[i] = (1.0f + s[i]) * value[i] + b[i];
    store(out + r * width, d, width, result);
  }
}

/// old_dx and old_dmodulation are added to where they are not null; dx or dmodulation may be null. What only an
/// unwanted gradient needs is not read.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    modulate_gradient_kernel(int64_t rows, int64_t width, const T* x, const T* modulation, const T* dout,
                             const T* old_dx, T* dx, const T* old_dmodulation, T* dmodulation) {
  constexpr int kPack = kPackSize<T>;
  const int64_t r = int64_t{blockIdx.x} * kWarps + warp_index();
  if (r >= rows) return;
  const T* const values = dmodulation == nullptr ? nullptr : x + r * width;
  const T* const factors = dx == nullptr ? nullptr : modulation + 2 * r * width;
  const T* const old_ds = row_of(old_dmodulation, r, 2 * width);
  T* const ds = row_of(dmodulation, r, 2 * width);
  for (int64_t d = lane_index() * kPack; d < width; d += kWarpSize * kPack) {
    const auto gradient = load<kPack>(dout + r * width, d, width);
    const auto value = load<kPack>(values, d, width);
    const auto factor = load<kPack>(factors, d, width);
    const auto old = load<kPack>(row_of(old_dx, r, width), d, width);
    const auto old_s = load<kPack>(old_ds, d, width);
    const auto old_b = load<kPack>(old_ds == nullptr ? nullptr : old_ds + width, d, width);
    float of_x[kPack], of_s[kPack], of_b[kPack];
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      of_x[i] = old[i] + (1.0f + factor[i]) * gradient[i];
      of_s[i] = old_s[i] + value[i] * gradient[i];
      of_b[i] = old_b[i] + gradient[i];
    }
    store(row_of(dx, r, width), d, width, of_x);
    store(ds, d, width, of_s);
    store(ds == nullptr ? nullptr : ds + width, d, width, of_b);
  }
}

}  // namespace

void add_row(int64_t rows, int64_t width, ConstReals x, const float* row, Reals out) {
  if (rows * width == 0) return;
  with_stored(common_type({x, out}), [&]<typename T>(T) {
    launch(add_row_kernel<T>, {block_count(rows, kWarps), kThreads}, context().compute_stream(), rows, width,
           stored<T>(x), row, stored<T>(out));
  });
}

void sum_rows(int64_t rows, int64_t width, ConstReals x, GradientOut sum) {
  if (!sum || width == 0) return;
  with_stored(x.type, [&]<typename T>(T) {
    constexpr int kPack = kPackSize<T>;
    const RowParts parts = cut_rows_for_strips<kPack>(rows, width);
    Scratch scratch(Scratch::bytes_of<float>(parts.count * width));
    auto* const partials = scratch.take<float>(parts.count * width);
    if (rows > 0)
      launch(sum_rows_kernel<T>, {{block_count(width, kWarpSize * kPack), block_count(parts.count, 1)}, kThreads},
             context().compute_stream(), rows, width, parts.rows, stored<T>(x), partials);
    finish_columns<1>(parts.count, width, partials, StoreTotal{sum.data, sum.accumulate});
  });
}

void modulate_forward(int64_t rows, int64_t width, ConstReals x, ConstReals modulation, Reals out) {
  if (rows * width == 0) return;
  with_stored(common_type({x, modulation, out}), [&]<typename T>(T) {
    launch(modulate_kernel<T>, {block_count(rows, kWarps), kThreads}, context().compute_stream(), rows, width,
           stored<T>(x), stored<T>(modulation), stored<T>(out));
  });
}

void modulate_backward(int64_t rows, int64_t width, ConstReals x, ConstReals modulation, ConstReals dout,
                       RealsGradient dx, RealsGradient dmodulation) {
  if (rows * width == 0 || (!dx && !dmodulation)) return;
  with_stored(common_type({x, modulation, dout, dx.data, dmodulation.data}), [&]<typename T>(T) {
    T* const to_x = stored<T>(dx.data);
    T* const to_modulation = stored<T>(dmodulation.data);
    launch(modulate_gradient_kernel<T>, {block_count(rows, kWarps), kThreads}, context().compute_stream(), rows, width,
           stored<T>(x), stored<T>(modulation), stored<T>(dout), dx.accumulate ? to_x : nullptr, to_x,
           dmodulation.accumulate ? to_modulation : nullptr, to_modulation);
  });
}

}  // namespace heddle::cuda
