// The sender's counts and lists of an exchange: a counting sort of the slots that keeps their order.
//
// The tokens are cut into chunks, and a warp walks each chunk in order, 32 slots at a time. A first walk counts what
// falls into each bin: the slots of every expert, the rows to every rank, and the rows to any rank. Running sums over
// the chunks, and over the bins, then say where the things of each chunk and bin start. A second walk puts everything
// into its place. No place depends on which warp runs first, and no expert's share of the slots costs extra.
#include <algorithm>

#include "cuda/context.h"
#include "cuda/copies.h"
#include "cuda/device.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/slot_order.h"

namespace heddle::cuda {

namespace {

constexpr int kMostWarps = 8;        // of a block that walks
constexpr int kSmallestChunk = 256;  // slots
constexpr int kMostChunks = 1024;
constexpr int kWalkersShared = 48 << 10;  // bytes for the bins of a block's warps
constexpr int kScanWarps = 32;

struct Slots {
  const int32_t* index;
  const uint8_t* keep;
  int tokens, choices, experts, ranks;
  int tokens_per_chunk, chunks;
};

Slots slots_of(const RouteShape& shape, const int32_t* index, const uint8_t* keep) {
  const int slots = to_int(shape.tokens * shape.choices), tokens = to_int(shape.tokens);
  const int choices = to_int(shape.choices), wanted = std::max(kSmallestChunk, slots / kMostChunks);
  const int tokens_per_chunk = wanted / choices + 1;
  return {index,
          keep,
          tokens,
          choices,
          to_int(shape.experts),
          to_int(shape.ranks),
          tokens_per_chunk,
          (tokens + tokens_per_chunk - 1) / tokens_per_chunk};
}

/// The bins of one chunk: slots of each expert, rows to each rank, rows. Without an exchange the slots alone.
template <bool kExchange>
__host__ __device__ int bins_of(const Slots& s) {
  return kExchange ? s.experts + s.ranks + 1 : s.experts;
}

/// What a lane knows of its slot.
struct Slot {
  int number, token;
  bool inside;       ///< of the chunk
  bool used;         ///< not dropped
  bool row;          ///< the first slot of its token that goes to its rank
  int expert, rank;  ///< if used
  int first;         ///< the slot that is the row, if used
};

__device__ bool is_used(const Slots& s, int slot) {
  return s.keep == nullptr || s.keep[slot] != 0;
}

__device__ Slot read_slot(const Slots& s, int number, int end) {
  Slot slot = {number, number / s.choices, number < end, false, false, 0, 0, number};
  slot.used = slot.inside && is_used(s, number);
  if (!slot.used) return slot;
  slot.expert = s.index[number];
  const int local = s.experts / s.ranks;
  slot.rank = slot.expert / local;
  for (int other = slot.token * s.choices; other < number; ++other) {
    const int there = s.index[other] - slot.rank * local;  // from the first expert of the rank on
    if (there < 0 || there >= local || !is_used(s, other)) continue;
    slot.first = other;
    break;
  }
  slot.row = slot.first == number;
  return slot;
}

__device__ unsigned lanes_before() {
  return (1u << lane_index()) - 1;
}

/// Next place in the bin of each lane that takes one (bin >= 0), in the order of lanes; `next` is the warp's. All 32
/// lanes call together.
__device__ int take_place(int* next, int bin) {
  const unsigned peers = __match_any_sync(kFullWarp, bin);
  const int before = __popc(peers & lanes_before());
  int place = 0;
  if (bin >= 0) place = next[bin] + before;
  __syncwarp();
  if (bin >= 0 && before == 0) next[bin] += __popc(peers);
  __syncwarp();
  return place;
}

/// One warp walks its chunk. next: what it has of the bins so far. Calls visit(slot, place among those of its expert,
/// row to its rank, row) by all lanes together; the last says how many rows there are before the slot, and the middle
/// two mean something for used slots and for rows.
template <bool kExchange, typename Visit>
__device__ void walk_chunk(const Slots& s, int chunk, int* next, const Visit& visit) {
  const int begin = min(chunk * s.tokens_per_chunk, s.tokens) * s.choices;
  const int end = min((chunk + 1) * s.tokens_per_chunk, s.tokens) * s.choices;
  for (int first = begin; first < end; first += kWarpSize) {
    const Slot slot = read_slot(s, first + lane_index(), end);
    const int place = take_place(next, slot.used ? slot.expert : -1);
    int row_to_rank = 0, row = 0;
    if constexpr (kExchange) {
      row_to_rank = take_place(next + s.experts, slot.row ? slot.rank : -1);
      const unsigned rows = __ballot_sync(kFullWarp, slot.row);
      int* const next_row = next + s.experts + s.ranks;
      row = *next_row + __popc(rows & lanes_before());
      __syncwarp();
      if (lane_index() == 0) *next_row += __popc(rows);
      __syncwarp();
    }
    visit(slot, place, row_to_rank, row);
  }
}

__device__ int chunk_of_warp() {
  return static_cast<int>(blockIdx.x) * warps_of_block() + warp_index();
}

/// table[chunk, bin]: what falls into the bin.
template <bool kExchange>
__global__ void __launch_bounds__(kMostWarps* kWarpSize) count_kernel(Slots s, int* __restrict__ table) {
  DYNAMIC_SHARED(int, bins_of_warps);
  const int bins = bins_of<kExchange>(s), chunk = chunk_of_warp();
  if (chunk >= s.chunks) return;
  int* const next = bins_of_warps + warp_index() * bins;
  for (int bin = lane_index(); bin < bins; bin += kWarpSize) next[bin] = 0;
  __syncwarp();
  walk_chunk<kExchange>(s, chunk, next, [](const Slot&, int, int, int) {});
  for (int bin = lane_index(); bin < bins; bin += kWarpSize) table[int64_t{chunk} * bins + bin] = next[bin];
}

/// table[chunk, bin] becomes the sum over the chunks before; totals[bin] that over all. A lane has a bin, a warp a
/// stretch of chunks.
__global__ void __launch_bounds__(kScanWarps* kWarpSize)
    sum_chunks_kernel(int chunks, int bins, int* __restrict__ table, int* __restrict__ totals) {
  SHARED_ARRAY(int, sums, kScanWarps* kWarpSize);
  const int bin = static_cast<int>(blockIdx.x) * kWarpSize + lane_index(), stretch = (chunks - 1) / kScanWarps + 1;
  const int begin = min(warp_index() * stretch, chunks), end = bin < bins ? min(begin + stretch, chunks) : begin;
  int sum = 0;
  for (int chunk = begin; chunk < end; ++chunk) sum += table[int64_t{chunk} * bins + bin];
  sums[threadIdx.x] = sum;
  __syncthreads();
  int before = 0;
  for (int warp = 0; warp < warp_index(); ++warp) before += sums[warp * kWarpSize + lane_index()];
  for (int chunk = begin; chunk < end; ++chunk) {
    int& entry = table[int64_t{chunk} * bins + bin];
    const int here = entry;
    entry = before;
    before += here;
  }
  if (bin < bins && warp_index() == kScanWarps - 1) totals[bin] = before;
}

/// Where the experts' slots and the ranks' rows start: [experts + 1] and [ranks + 1].
template <bool kExchange>
__global__ void __launch_bounds__(1024) start_kernel(Slots s, const int* __restrict__ totals,
                                                     int* __restrict__ expert_begin, int* __restrict__ rank_begin) {
  running_sums_of_list(s.experts, expert_begin, [&](int64_t expert) { return totals[expert]; });
  if constexpr (kExchange)
    running_sums_of_list(s.ranks, rank_begin, [&](int64_t rank) { return totals[s.experts + rank]; });
}

struct SendLists {
  const float* weights;
  int64_t *sent_token, *token_begin, *token_sent, *sent_slot;
  RouteMessage* messages;
  int* row_of_slot;  ///< room for a number per slot
};

/// sent_slot alone, or all lists. For a rank alone, rows are tokens.
template <bool kExchange>
__global__ void __launch_bounds__(kMostWarps* kWarpSize)
    place_kernel(Slots s, const int* __restrict__ table, const int* __restrict__ expert_begin,
                 const int* __restrict__ rank_begin, SendLists out) {
  DYNAMIC_SHARED(int, bins_of_warps);
  const int bins = bins_of<kExchange>(s), chunk = chunk_of_warp();
  if (chunk >= s.chunks) return;
  int* const next = bins_of_warps + warp_index() * bins;
  for (int bin = lane_index(); bin < bins; bin += kWarpSize) {
    int start = 0;
    if (bin < s.experts)
      start = expert_begin[bin];
    else if (bin < s.experts + s.ranks)
      start = rank_begin[bin - s.experts];
    next[bin] = start + table[int64_t{chunk} * bins + bin];
  }
  __syncwarp();
  walk_chunk<kExchange>(s, chunk, next, [&](const Slot& slot, int place, int row_to_rank, int row) {
    if (slot.used) out.sent_slot[place] = slot.number;
    if constexpr (kExchange) {
      const bool alone = s.ranks == 1, opens_token = slot.inside && slot.number == slot.token * s.choices;
      const int sent = alone ? slot.token : row_to_rank;
      if (opens_token) out.token_begin[slot.token] = row;
      if (alone ? opens_token : slot.row) out.sent_token[sent] = slot.token;
      if (slot.row) {
        out.token_sent[row] = sent;
        out.row_of_slot[slot.number] = sent - rank_begin[slot.rank];
      }
      __syncwarp();  // the row of a slot may be another lane's
      if (slot.used) out.messages[place] = {out.row_of_slot[slot.first], out.weights[slot.number]};
    }
  });
  if constexpr (kExchange)
    if (chunk == s.chunks - 1 && lane_index() == 0) out.token_begin[s.tokens] = next[bins - 1];
}

/// counts [P][E/P + 1], from the totals of the bins.
__global__ void __launch_bounds__(256)
    lay_out_counts_kernel(Slots s, const int* __restrict__ totals, int64_t* __restrict__ counts) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), local = s.experts / s.ranks;
  if (i >= s.ranks * (local + 1)) return;
  const int rank = i / (local + 1), expert = i % (local + 1);
  if (expert < local)
    counts[i] = totals[rank * local + expert];
  else
    counts[i] = s.ranks == 1 ? s.tokens : totals[s.experts + rank];
}

/// Shape of the launches that walk.
template <bool kExchange>
LaunchShape walkers(const Slots& s) {
  const int bytes = bins_of<kExchange>(s) * static_cast<int>(sizeof(int));
  const int warps = std::clamp(kWalkersShared / bytes, 1, kMostWarps);
  return {block_count(s.chunks, warps), static_cast<unsigned>(warps * kWarpSize), static_cast<size_t>(warps * bytes)};
}

/// What the first walk and the sums over its chunks make.
struct Counted {
  int *table, *totals;
};

template <bool kExchange>
Counted count_slots(const Slots& s, Scratch& scratch) {
  const int bins = bins_of<kExchange>(s);
  const Counted counted = {scratch.take<int>(int64_t{s.chunks} * bins), scratch.take<int>(bins)};
  const cudaStream_t stream = context().compute_stream();
  launch(count_kernel<kExchange>, walkers<kExchange>(s), stream, s, counted.table);
  launch(sum_chunks_kernel, {block_count(bins, kWarpSize), kScanWarps * kWarpSize}, stream, s.chunks, bins,
         counted.table, counted.totals);
  return counted;
}

/// Both walks. Returns where the experts start.
template <bool kExchange>
const int* make_lists(const Slots& s, const SendLists& lists, Scratch& scratch) {
  const Counted counted = count_slots<kExchange>(s, scratch);
  int* const expert_begin = scratch.take<int>(s.experts + 1);
  int* const rank_begin = scratch.take<int>(s.ranks + 1);
  const cudaStream_t stream = context().compute_stream();
  launch(start_kernel<kExchange>, {1, threads_of_one_block(std::max(s.experts, s.ranks))}, stream, s, counted.totals,
         expert_begin, rank_begin);
  launch(place_kernel<kExchange>, walkers<kExchange>(s), stream, s, counted.table, expert_begin, rank_begin, lists);
  return expert_begin;
}

size_t bytes_for(const Slots& s) {
  const int bins = bins_of<true>(s);
  return Scratch::bytes_of<int>(int64_t{s.chunks} * bins) + Scratch::bytes_of<int>(bins) +
         Scratch::bytes_of<int>(s.experts + 1) + Scratch::bytes_of<int>(s.ranks + 1);
}

}  // namespace

void route_count(const RouteShape& shape, const int32_t* index, const uint8_t* keep, int64_t* counts) {
  const int64_t entries = shape.ranks * (shape.experts_per_rank() + 1);
  if (shape.tokens == 0) {
    fill_bytes(counts, 0, static_cast<size_t>(entries) * sizeof(int64_t));
    return;
  }
  const Slots slots = slots_of(shape, index, keep);
  Scratch scratch(bytes_for(slots));
  const Counted counted = count_slots<true>(slots, scratch);
  launch(lay_out_counts_kernel, {block_count(entries, 256), 256}, context().compute_stream(), slots, counted.totals,
         counts);
}

void route_send(const RouteShape& shape, const int32_t* index, const uint8_t* keep, const float* weights,
                const int64_t*, int64_t* sent_token, int64_t* token_begin, int64_t* token_sent, int64_t* sent_slot,
                RouteMessage* messages) {
  if (shape.tokens == 0) {
    fill_bytes(token_begin, 0, sizeof(int64_t));
    return;
  }
  const Slots slots = slots_of(shape, index, keep);
  const int64_t count = shape.tokens * shape.choices;
  Scratch scratch(bytes_for(slots) + Scratch::bytes_of<int>(count));
  int* const row_of_slot = scratch.take<int>(count);
  make_lists<true>(slots, {weights, sent_token, token_begin, token_sent, sent_slot, messages, row_of_slot}, scratch);
}

size_t slot_order_bytes(const RouteShape& shape) {
  return bytes_for(slots_of(shape, nullptr, nullptr));
}

const int32_t* order_slots(const RouteShape& shape, const int32_t* index, Scratch& scratch, int64_t* ordered) {
  SendLists lists = {};
  lists.sent_slot = ordered;
  return make_lists<false>(slots_of(shape, index, nullptr), lists, scratch);
}

}  // namespace heddle::cuda
