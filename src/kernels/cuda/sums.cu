// Sums in double that the host waits for. A vector is cut into pieces of a fixed size, a block for each; their sums are
// added in a fixed order. So the bits depend on nothing but the vector.
#include <vector>

#include "cuda/context.h"
#include "cuda/copies.h"
#include "cuda/scratch.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/stored.h"
#include "kernels/cuda/vectors.cuh"

namespace heddle::cuda {

namespace {

constexpr int64_t kPiece = int64_t{1} << 15;

/// A vector on the device, and the number of the first of its pieces among those of all vectors.
struct Pieces {
  const void* data;
  int64_t count;
  int64_t first;
};

__device__ __forceinline__ double to_double(double value) {
  return value;
}
template <typename T>
__device__ __forceinline__ double to_double(T value) {
  return static_cast<double>(to_float(value));
}

/// The last vector whose first piece is not behind `piece`: an empty vector starts where the next one does.
__device__ __forceinline__ int64_t vector_of(int64_t piece, int64_t vectors, const Pieces* list) {
  int64_t low = 0, high = vectors;  // list[low].first <= piece < list[high].first
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (list[middle].first <= piece ? low : high) = middle;
  }
  return low;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    piece_kernel(int64_t vectors, const Pieces* __restrict__ list, bool squares, double* __restrict__ sums) {
  constexpr int kPack = kPackSize<T>;
  const Pieces vector = list[vector_of(blockIdx.x, vectors, list)];
  const auto* const data = static_cast<const T*>(vector.data);
  const int64_t begin = (blockIdx.x - vector.first) * kPiece;
  const int64_t end = begin + kPiece < vector.count ? begin + kPiece : vector.count;
  double sum = 0;
#pragma unroll 4
  for (int64_t first = begin + threadIdx.x * kPack; first < end; first += kThreads * kPack) {
    const auto elements = load<kPack>(data, first, end);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      const double value = to_double(elements.values[i]);
      sum += squares ? value * value : value;
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/// A warp for each vector.
__global__ void __launch_bounds__(kThreads)
    total_kernel(int64_t vectors, const Pieces* __restrict__ list, int64_t pieces, const double* __restrict__ sums,
                 double* __restrict__ totals) {
  const int64_t vector = int64_t{blockIdx.x} * kWarps + warp_index();
  if (vector >= vectors) return;
  const int64_t end = vector + 1 < vectors ? list[vector + 1].first : pieces;
  double total = 0;
  for (int64_t i = list[vector].first + lane_index(); i < end; i += kWarpSize) total += sums[i];
  total = warp_sum(total);
  if (lane_index() == 0) totals[vector] = total;
}

/// Numbers the pieces of every vector of `list`, and writes the sums of their elements, or of the squares, to the host.
template <typename T>
void sum_vectors(std::vector<Pieces> list, bool squares, double* totals) {
  int64_t pieces = 0;
  for (Pieces& vector : list) {
    vector.first = pieces;
    pieces += block_count(vector.count, kPiece);
  }
  const auto vectors = static_cast<int64_t>(list.size());
  if (vectors == 0) return;
  Scratch scratch(Scratch::bytes_of<Pieces>(vectors) + Scratch::bytes_of<double>(pieces) +
                  Scratch::bytes_of<double>(vectors));
  const Pieces* const there = scratch.upload(list.data(), vectors);
  auto* const sums = scratch.take<double>(pieces);
  auto* const results = scratch.take<double>(vectors);
  const cudaStream_t stream = context().compute_stream();
  if (pieces > 0) launch(piece_kernel<T>, {block_count(pieces, 1), kThreads}, stream, vectors, there, squares, sums);
  launch(total_kernel, {block_count(vectors, kWarps), kThreads}, stream, vectors, there, pieces, sums, results);
  copy_to_host(totals, results, static_cast<size_t>(vectors) * sizeof(double));
  context().synchronize_compute();
}

}  // namespace

double sum_of_squares(int64_t count, ConstReals x) {
  double sum = 0;
  with_stored(x.type, [&]<typename T>(T) { sum_vectors<T>({{x.data, count, 0}}, true, &sum); });
  return sum;
}

void sums_of_squares(int64_t stretches, const Stretch* list, double* sums) {
  std::vector<Pieces> vectors;
  for (int64_t s = 0; s < stretches; ++s) vectors.push_back({list[s].data, list[s].count, 0});
  sum_vectors<float>(vectors, true, sums);
}

double sum_doubles(int64_t count, const double* x, bool squares) {
  double sum = 0;
  sum_vectors<double>({{x, count, 0}}, squares, &sum);
  return sum;
}

}  // namespace heddle::cuda
