// The receiver's lists of an exchange. A stretch is what one source sent to one expert: consecutive in arrival order
// (source, expert) and in slot order (expert, source). So a slot finds its stretch, and with it its message, by a
// search among the starts. The slots of a row are few and arrive at its list in any order; sorting each list makes the
// result the same in every run.
#include "cuda/context.h"
#include "cuda/copies.h"
#include "cuda/device.cuh"
#include "cuda/scratch.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/running_sums.h"

namespace heddle::cuda {

namespace {

constexpr int kThreads = 256;

struct Starts {
  int64_t* slot;     ///< [local, ranks] and the end: first slot of each stretch
  int64_t* arrival;  ///< [ranks, local] and the end: its first message
  int64_t* row;      ///< [ranks] and the end: first row of each source
};

__global__ void __launch_bounds__(1024)
    start_kernel(int64_t ranks, int64_t local, const int64_t* __restrict__ counts, Starts starts) {
  const auto count = [&](int64_t source, int64_t entry) { return counts[source * (local + 1) + entry]; };
  running_sums_of_list(local * ranks, starts.slot, [&](int64_t i) { return count(i % ranks, i / ranks); });
  running_sums_of_list(local * ranks, starts.arrival, [&](int64_t i) { return count(i / local, i % local); });
  running_sums_of_list(ranks, starts.row, [&](int64_t source) { return count(source, local); });
}

/// The last stretch that starts at or before `slot`; those without slots start where the next one does.
__device__ int64_t stretch_of(int64_t slot, int64_t stretches, const int64_t* __restrict__ begin) {
  int64_t low = 0, high = stretches;  // begin[low] <= slot < begin[high]
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (begin[middle] <= slot ? low : high) = middle;
  }
  return low;
}

/// Also counts the slots of each row, and gives each slot a number among them.
__global__ void __launch_bounds__(kThreads)
    read_messages_kernel(int64_t slots, int64_t ranks, int64_t local, Starts starts,
                         const RouteMessage* __restrict__ messages, int64_t* __restrict__ slot_row,
                         int64_t* __restrict__ slot_arrival, float* __restrict__ slot_weight, int* slots_of_row,
                         int* __restrict__ number_in_row) {
  const int64_t slot = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (slot >= slots) return;
  const int64_t stretch = stretch_of(slot, ranks * local, starts.slot);
  const int64_t expert = stretch / ranks, source = stretch % ranks;
  const int64_t arrival = starts.arrival[source * local + expert] + slot - starts.slot[stretch];
  const RouteMessage message = messages[arrival];
  const int64_t row = starts.row[source] + message.row;
  slot_row[slot] = row;
  slot_arrival[slot] = arrival;
  slot_weight[slot] = message.weight;
  number_in_row[slot] = atomicAdd(&slots_of_row[row], 1);
}

__global__ void __launch_bounds__(kThreads)
    list_slots_kernel(int64_t slots, const int64_t* __restrict__ slot_row, const int* __restrict__ number_in_row,
                      const int64_t* __restrict__ row_begin, int64_t* __restrict__ row_slot) {
  const int64_t slot = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (slot < slots) row_slot[row_begin[slot_row[slot]] + number_in_row[slot]] = slot;
}

__global__ void __launch_bounds__(kThreads)
    sort_lists_kernel(int64_t rows, const int64_t* __restrict__ row_begin, int64_t* __restrict__ row_slot) {
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= rows) return;
  const int64_t begin = row_begin[row], end = row_begin[row + 1];
  for (int64_t i = begin + 1; i < end; ++i) {
    const int64_t slot = row_slot[i];
    int64_t place = i;
    for (; place > begin && row_slot[place - 1] > slot; --place) row_slot[place] = row_slot[place - 1];
    row_slot[place] = slot;
  }
}

}  // namespace

void route_receive(const RouteShape& shape, int64_t rows, int64_t slots, const int64_t* counts,
                   const RouteMessage* messages, int64_t* slot_row, int64_t* slot_arrival, float* slot_weight,
                   int64_t* row_begin, int64_t* row_slot) {
  const int64_t ranks = shape.ranks, local = shape.experts_per_rank(), stretches = ranks * local;
  Scratch scratch(2 * Scratch::bytes_of<int64_t>(stretches + 1) + Scratch::bytes_of<int64_t>(ranks + 1) +
                  Scratch::bytes_of<int>(rows) + Scratch::bytes_of<int>(slots) + running_sums_bytes(rows));
  const Starts starts = {scratch.take<int64_t>(stretches + 1), scratch.take<int64_t>(stretches + 1),
                         scratch.take<int64_t>(ranks + 1)};
  int* const slots_of_row = scratch.take<int>(rows);
  int* const number_in_row = scratch.take<int>(slots);
  const cudaStream_t stream = context().compute_stream();
  const unsigned slot_blocks = block_count(slots, kThreads);
  if (rows > 0) fill_bytes(slots_of_row, 0, static_cast<size_t>(rows) * sizeof(int));
  if (slots > 0) {
    launch(start_kernel, {1, threads_of_one_block(stretches)}, stream, ranks, local, counts, starts);
    launch(read_messages_kernel, {slot_blocks, kThreads}, stream, slots, ranks, local, starts, messages, slot_row,
           slot_arrival, slot_weight, slots_of_row, number_in_row);
  }
  running_sums(rows, slots_of_row, row_begin, scratch);
  if (slots == 0) return;
  launch(list_slots_kernel, {slot_blocks, kThreads}, stream, slots, slot_row, number_in_row, row_begin, row_slot);
  launch(sort_lists_kernel, {block_count(rows, kThreads), kThreads}, stream, rows, row_begin, row_slot);
}

}  // namespace heddle::cuda
