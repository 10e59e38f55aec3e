// Token embedding, and its scatter-add without atomics on floats: rows are sorted by token first, by a radix sort that
// keeps the order of rows with the same token. Then the rows of a token are added up one after the other, by a warp for
// each strip of columns, whether a token has one row or all of them.
#include <algorithm>

#include "cuda/context.h"
#include "cuda/scratch.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/stored.h"
#include "kernels/cuda/vectors.cuh"

namespace heddle::cuda {

namespace {

/// A warp for each row.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    look_up_kernel(int64_t rows, int64_t width, float scale, const int32_t* __restrict__ tokens,
                   const float* __restrict__ table, T* __restrict__ out) {
  constexpr int kPack = kPackSize<T>;
  const int64_t r = int64_t{blockIdx.x} * kWarps + warp_index();
  if (r >= rows) return;
  const float* const entry = table + tokens[r] * width;
#pragma unroll 2
  for (int64_t d = lane_index() * kPack; d < width; d += kWarpSize * kPack) {
    const auto value = load<kPack>(entry, d, width);
    float scaled[kPack];
#pragma unroll
    for (int i = 0; i < kPack; ++i) scaled[i] = scale * value[i];
    store(out + r * width, d, width, scaled);
  }
}

/// A digit of a token: two are enough for any usual vocabulary.
constexpr int kDigitBits = 9, kDigits = 1 << kDigitBits;

/// The rows in chunks, which warps walk in order, 32 rows at a time.
struct Chunks {
  int64_t rows, rows_of_chunk, count;
};
Chunks cut_into_chunks(int64_t rows) {
  const int64_t of_chunk = std::max<int64_t>(1024, (rows + 255) / 256);
  return {rows, of_chunk, (rows + of_chunk - 1) / of_chunk};
}

/// One warp walks its chunk. next: for each digit a counter of the warp. Calls visit(i, token, value of the counter of
/// the token's digit before it), in the order of i for every digit.
template <typename Visit>
__device__ __forceinline__ void walk_chunk(const Chunks& chunks, int64_t chunk, int shift,
                                           const int32_t* __restrict__ tokens, int64_t* next, const Visit& visit) {
  const int64_t end = min((chunk + 1) * chunks.rows_of_chunk, chunks.rows);
  for (int64_t first = chunk * chunks.rows_of_chunk; first < end; first += kWarpSize) {
    const int64_t i = first + lane_index();
    const int32_t token = i < end ? tokens[i] : 0;
    const int digit = i < end ? (token >> shift) & (kDigits - 1) : -1;
    const unsigned peers = __match_any_sync(kFullWarp, digit);
    const int before = __popc(peers & ((1u << lane_index()) - 1));
    if (digit >= 0) visit(i, token, next[digit] + before);
    __syncwarp();
    if (digit >= 0 && before == 0) next[digit] += __popc(peers);
    __syncwarp();
  }
}

/// table [chunk, digit]: how many rows of the chunk have a token with this digit.
__global__ void __launch_bounds__(kThreads)
    count_kernel(Chunks chunks, int shift, const int32_t* __restrict__ tokens, int64_t* __restrict__ table) {
  SHARED_ARRAY(int64_t, counters, kWarps * kDigits);
  const int64_t chunk = int64_t{blockIdx.x} * kWarps + warp_index();
  if (chunk >= chunks.count) return;
  int64_t* const next = counters + warp_index() * kDigits;
  for (int digit = lane_index(); digit < kDigits; digit += kWarpSize) next[digit] = 0;
  __syncwarp();
  walk_chunk(chunks, chunk, shift, tokens, next, [](int64_t, int32_t, int64_t) {});
  for (int digit = lane_index(); digit < kDigits; digit += kWarpSize) table[chunk * kDigits + digit] = next[digit];
}

/// One block, a thread for each digit. table: from counts to where the rows of each chunk and digit start.
__global__ void __launch_bounds__(kDigits) start_kernel(int64_t chunks, int64_t* __restrict__ table) {
  SHARED_ARRAY(int64_t, totals, kDigits);
  const int digit = static_cast<int>(threadIdx.x);
  int64_t total = 0;
#pragma unroll 8
  for (int64_t chunk = 0; chunk < chunks; ++chunk) total += table[chunk * kDigits + digit];
  totals[digit] = total;
  __syncthreads();
  int64_t start = 0;
  for (int other = 0; other < digit; ++other) start += totals[other];
#pragma unroll 8
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const int64_t count = table[chunk * kDigits + digit];
    table[chunk * kDigits + digit] = start;
    start += count;
  }
}

/// rows: the numbers that go with the tokens; null: 0, 1, ....
__global__ void __launch_bounds__(kThreads)
    place_kernel(Chunks chunks, int shift, const int32_t* __restrict__ tokens, const int64_t* __restrict__ rows,
                 const int64_t* __restrict__ table, int32_t* __restrict__ to_tokens, int64_t* __restrict__ to_rows) {
  SHARED_ARRAY(int64_t, counters, kWarps * kDigits);
  const int64_t chunk = int64_t{blockIdx.x} * kWarps + warp_index();
  if (chunk >= chunks.count) return;
  int64_t* const next = counters + warp_index() * kDigits;
  for (int digit = lane_index(); digit < kDigits; digit += kWarpSize) next[digit] = table[chunk * kDigits + digit];
  __syncwarp();
  walk_chunk(chunks, chunk, shift, tokens, next, [&](int64_t i, int32_t token, int64_t place) {
    to_tokens[place] = token;
    to_rows[place] = rows == nullptr ? i : rows[i];
  });
}

/// starts[v], v <= vocabulary: how many of the sorted tokens lie below v.
__global__ void __launch_bounds__(kThreads)
    find_tokens_kernel(int64_t rows, int64_t vocabulary, const int32_t* __restrict__ sorted,
                       int64_t* __restrict__ starts) {
  const int64_t v = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (v > vocabulary) return;
  int64_t low = 0, high = rows;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (sorted[middle] < v)
      low = middle + 1;
    else
      high = middle;
  }
  starts[v] = low;
}

/// A warp for each token and strip of columns. Many rows are under way at once; they are added in their order.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    add_rows_kernel(int64_t width, int64_t vocabulary, float scale, const int64_t* __restrict__ rows,
                    const int64_t* __restrict__ starts, const T* __restrict__ dout, bool accumulate, float* dtable) {
  constexpr int kPack = kPackSize<float>, kBatch = 16;
  const int64_t v = int64_t{blockIdx.x} * kWarps + warp_index();
  const int64_t d = (int64_t{blockIdx.y} * kWarpSize + lane_index()) * kPack;
  if (v >= vocabulary) return;
  const int64_t end = starts[v + 1];
  if (accumulate && starts[v] == end) return;
  float* const to = dtable + v * width;
  const auto old = load<kPack>(accumulate ? static_cast<const float*>(to) : nullptr, d, width);
  float sum[kPack];
#pragma unroll
  for (int e = 0; e < kPack; ++e) sum[e] = old[e];
  for (int64_t first = starts[v]; first < end; first += kBatch) {
    const int64_t mine = first + lane_index() < end && lane_index() < kBatch ? rows[first + lane_index()] : 0;
    Elements<kPack, T> values[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int64_t row = __shfl_sync(kFullWarp, mine, i);
      values[i] = load<kPack>(first + i < end ? dout + row * width : nullptr, d, width);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i)
#pragma unroll
      for (int e = 0; e < kPack; ++e) sum[e] += scale * values[i][e];
  }
  store(to, d, width, sum);
}

/// The rows by token, on the device.
struct SortedRows {
  const int64_t* rows;    ///< row numbers, by token and then by number
  const int64_t* starts;  ///< [vocabulary + 1]: where the rows of each token start
};

size_t bytes_to_sort(int64_t rows, int64_t vocabulary) {
  return 2 * (Scratch::bytes_of<int32_t>(rows) + Scratch::bytes_of<int64_t>(rows)) +
         Scratch::bytes_of<int64_t>(cut_into_chunks(rows).count * kDigits) + Scratch::bytes_of<int64_t>(vocabulary + 1);
}

SortedRows sort_rows(Scratch& scratch, int64_t rows, int64_t vocabulary, const int32_t* tokens) {
  const cudaStream_t stream = context().compute_stream();
  const Chunks chunks = cut_into_chunks(rows);
  auto* const table = scratch.take<int64_t>(chunks.count * kDigits);
  int32_t* const token_lists[2] = {scratch.take<int32_t>(rows), scratch.take<int32_t>(rows)};
  int64_t* const row_lists[2] = {scratch.take<int64_t>(rows), scratch.take<int64_t>(rows)};
  const int32_t* from_tokens = tokens;
  const int64_t* from_rows = nullptr;
  int list = 0;
  for (int shift = 0; shift == 0 || (vocabulary - 1) >> shift > 0; shift += kDigitBits, list = 1 - list) {
    const dim3 blocks = block_count(chunks.count, kWarps);
    launch(count_kernel, {blocks, kThreads}, stream, chunks, shift, from_tokens, table);
    launch(start_kernel, {1, kDigits}, stream, chunks.count, table);
    launch(place_kernel, {blocks, kThreads}, stream, chunks, shift, from_tokens, from_rows, table, token_lists[list],
           row_lists[list]);
    from_tokens = token_lists[list];
    from_rows = row_lists[list];
  }
  auto* const starts = scratch.take<int64_t>(vocabulary + 1);
  launch(find_tokens_kernel, {block_count(vocabulary + 1, kThreads), kThreads}, stream, rows, vocabulary, from_tokens,
         starts);
  return {from_rows, starts};
}

}  // namespace

void embedding_forward(int64_t rows, int64_t width, float scale, const int32_t* tokens, const float* table, Reals out) {
  if (rows * width == 0) return;
  with_stored(out.type, [&]<typename T>(T) {
    launch(look_up_kernel<T>, {block_count(rows, kWarps), kThreads}, context().compute_stream(), rows, width, scale,
           tokens, table, stored<T>(out));
  });
}

void embedding_backward(int64_t rows, int64_t width, int64_t vocabulary, float scale, const int32_t* tokens,
                        ConstReals dout, GradientOut dtable) {
  if (!dtable) return;
  if (rows * width == 0) {
    if (!dtable.accumulate) fill_zero(vocabulary * width, dtable.data);
    return;
  }
  Scratch scratch(bytes_to_sort(rows, vocabulary));
  const SortedRows sorted = sort_rows(scratch, rows, vocabulary, tokens);
  const dim3 grid = {block_count(vocabulary, kWarps), block_count(width, kWarpSize * kPackSize<float>)};
  with_stored(dout.type, [&]<typename T>(T) {
    launch(add_rows_kernel<T>, {grid, kThreads}, context().compute_stream(), width, vocabulary, scale, sorted.rows,
           sorted.starts, stored<T>(dout), dtable.accumulate, dtable.data);
  });
}

}  // namespace heddle::cuda
