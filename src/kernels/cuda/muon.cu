// What Muon does to a matrix. Element by element: a block takes a tile of one row, a pack of elements a thread. Sums
// over rows and columns are in double, in an order that depends on the sizes alone.
#include <algorithm>

#include "cuda/context.h"
#include "cuda/scratch.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/vectors.cuh"

namespace heddle::cuda {

namespace {

constexpr int kPack = kPackSize<float>;
constexpr int kColumnWarps = 32;  // that share the rows of 32 columns

/// How many threads take the elements of a row, and in how many tiles.
struct RowTiles {
  unsigned threads, tiles;

  explicit RowTiles(int64_t columns)
      : threads(std::min<unsigned>(block_count(columns, kWarpSize * kPack) * kWarpSize, kThreads)),
        tiles(block_count(columns, int64_t{threads} * kPack)) {}

  LaunchShape all(int64_t rows) const { return {block_count(rows * tiles, 1), threads}; }
  LaunchShape one_block_per_row(int64_t rows) const { return {block_count(rows, 1), threads}; }
};

/// Row and first column of a thread's pack.
struct Place {
  int64_t row, column;

  __device__ explicit Place(unsigned tiles)
      : row(blockIdx.x / tiles), column((int64_t{blockIdx.x % tiles} * blockDim.x + threadIdx.x) * kPack) {}
};

__global__ void __launch_bounds__(kThreads)
    copy_kernel(int64_t columns, unsigned tiles, const float* __restrict__ from, int64_t from_leading,
                float* __restrict__ to, int64_t to_leading) {
  const Place at(tiles);
  const Elements<kPack, float> elements = load<kPack>(from + at.row * from_leading, at.column, columns);
  store(to + at.row * to_leading, at.column, columns, elements.values);
}

__global__ void __launch_bounds__(kThreads)
    update_kernel(int64_t columns, unsigned tiles, MuonCoefficients c, const float* __restrict__ x,
                  float* __restrict__ parameter, int64_t leading) {
  const Place at(tiles);
  const Elements<kPack, float> steps = load<kPack>(x + at.row * columns, at.column, columns);
  const Elements<kPack, float> old = load<kPack>(parameter + at.row * leading, at.column, columns);
  float p[kPack];
  const float keep = 1.0f - c.rate * c.weight_decay;
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    const bool decays = !c.cautious || steps[i] * old[i] >= 0;
    p[i] = (decays ? old[i] * keep : old[i]) - c.rate * steps[i];
  }
  store(parameter + at.row * leading, at.column, columns, p);
}

/// Calls visit(first element of each pack) of one row by a whole block.
template <typename Visit>
__device__ void for_each_pack(int64_t columns, const Visit& visit) {
  for (int64_t j = int64_t{threadIdx.x} * kPack; j < columns; j += int64_t{blockDim.x} * kPack) visit(j);
}

/// All threads of the block get it.
__device__ double row_square(int64_t columns, const float* row) {
  double sum = 0;
  for_each_pack(columns, [&](int64_t j) {
    const Elements<kPack, float> values = load<kPack>(row, j, columns);
#pragma unroll
    for (int i = 0; i < kPack; ++i) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  });
  return block_sum(sum);
}

__global__ void __launch_bounds__(kThreads) normalise_kernel(int64_t columns, float floor, float* __restrict__ x) {
  float* const row = x + blockIdx.x * columns;
  const double norm = sqrt(row_square(columns, row)), smallest = static_cast<double>(floor);
  const float factor = static_cast<float>(1 / (norm < smallest ? smallest : norm));
  for_each_pack(columns, [&](int64_t j) {
    Elements<kPack, float> pack = load<kPack>(row, j, columns);
#pragma unroll
    for (float& value : pack.values) value *= factor;
    store(row, j, columns, pack.values);
  });
}

__global__ void __launch_bounds__(kThreads)
    mean_squares_of_rows_kernel(int64_t columns, const float* __restrict__ x, float* __restrict__ mean_square) {
  const double sum = row_square(columns, x + blockIdx.x * columns);
  if (threadIdx.x == 0) mean_square[blockIdx.x] = static_cast<float>(sum / static_cast<double>(columns));
}

/// A block takes 32 columns; its warps share the rows.
__global__ void __launch_bounds__(kColumnWarps* kWarpSize)
    mean_squares_of_columns_kernel(int64_t rows, int64_t columns, const float* __restrict__ x,
                                   float* __restrict__ mean_square) {
  SHARED_ARRAY(double, sums, kColumnWarps* kWarpSize);
  const int64_t j = int64_t{blockIdx.x} * kWarpSize + lane_index();
  double sum = 0;
  for (int64_t i = warp_index(); j < columns && i < rows; i += warps_of_block()) {
    const double value = static_cast<double>(x[i * columns + j]);
    sum += value * value;
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (warp_index() != 0 || j >= columns) return;
  for (int warp = 1; warp < warps_of_block(); ++warp) sum += sums[warp * kWarpSize + lane_index()];
  mean_square[j] = static_cast<float>(sum / static_cast<double>(rows));
}

__device__ float inverse_root(float second) {
  return 1.0f / sqrtf(second < 1e-10f ? 1e-10f : second);
}

/// One block: the running means, and what keeps the norm of x.
__global__ void __launch_bounds__(1024)
    running_means_kernel(int64_t kept, int64_t averaged, float beta2, const float* __restrict__ mean_square,
                         float* __restrict__ second, float* __restrict__ keep) {
  double before = 0, after = 0;  // sums of squares over the number averaged
  for (int64_t i = threadIdx.x; i < kept; i += blockDim.x) {
    const float mean = beta2 * second[i] + (1.0f - beta2) * mean_square[i];
    second[i] = mean;
    const double s = static_cast<double>(inverse_root(mean)), v = static_cast<double>(mean_square[i]);
    before += v;
    after += v * s * s;
  }
  before = block_sum(before);
  after = block_sum(after);
  const double count = static_cast<double>(averaged), norm = sqrt(count * after);
  if (threadIdx.x == 0) *keep = static_cast<float>(sqrt(count * before) / (norm < 1e-10 ? 1e-10 : norm));
}

__global__ void __launch_bounds__(kThreads)
    even_out_kernel(int64_t columns, unsigned tiles, bool by_row, const float* __restrict__ keep,
                    const float* __restrict__ second, float* __restrict__ x) {
  const Place at(tiles);
  Elements<kPack, float> pack = load<kPack>(x + at.row * columns, at.column, columns);
  const Elements<kPack, float> means = load<kPack>(by_row ? nullptr : second, at.column, columns);
#pragma unroll
  for (int i = 0; i < kPack; ++i) pack.values[i] *= *keep * inverse_root(by_row ? second[at.row] : means[i]);
  store(x + at.row * columns, at.column, columns, pack.values);
}

}  // namespace

void copy_matrix(int64_t rows, int64_t columns, const float* from, int64_t from_leading, float* to,
                 int64_t to_leading) {
  if (rows == 0 || columns == 0) return;
  const RowTiles tiles(columns);
  launch(copy_kernel, tiles.all(rows), context().compute_stream(), columns, tiles.tiles, from, from_leading, to,
         to_leading);
}

void normalise_rows(int64_t rows, int64_t columns, float floor, float* x) {
  if (rows == 0 || columns == 0) return;
  launch(normalise_kernel, RowTiles(columns).one_block_per_row(rows), context().compute_stream(), columns, floor, x);
}

void reduce_variance(int64_t rows, int64_t columns, float beta2, float* x, float* second, float* mean_square) {
  if (rows == 0 || columns == 0) return;
  const cudaStream_t stream = context().compute_stream();
  const RowTiles tiles(columns);
  const bool by_row = rows >= columns;
  if (by_row) {
    launch(mean_squares_of_rows_kernel, tiles.one_block_per_row(rows), stream, columns, x, mean_square);
  } else {
    const auto warps = static_cast<unsigned>(std::min<int64_t>(rows, kColumnWarps));
    launch(mean_squares_of_columns_kernel, {block_count(columns, kWarpSize), warps * kWarpSize}, stream, rows, columns,
           x, mean_square);
  }
  Scratch scratch(Scratch::bytes_of<float>(1));
  float* const keep = scratch.take<float>(1);
  const int64_t kept = std::max(rows, columns), averaged = std::min(rows, columns);
  launch(running_means_kernel, {1, threads_of_one_block(kept)}, stream, kept, averaged, beta2, mean_square, second,
         keep);
  launch(even_out_kernel, tiles.all(rows), stream, columns, tiles.tiles, by_row, keep, second, x);
}

void muon_update(int64_t rows, int64_t columns, const MuonCoefficients& c, const float* x, float* parameter,
                 int64_t leading) {
  if (rows == 0 || columns == 0) return;
  const RowTiles tiles(columns);
  launch(update_kernel, tiles.all(rows), context().compute_stream(), columns, tiles.tiles, c, x, parameter, leading);
}

}  // namespace heddle::cuda
