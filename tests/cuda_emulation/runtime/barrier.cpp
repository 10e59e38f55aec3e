// __syncthreads and its reductions: all threads of the block, at the same place.
#include <cstring>

#include <cuda_emulation/barriers.h>

#include "runtime/failure.h"
#include "runtime/sanitizers.h"
#include "runtime/thread_block.h"

namespace cuda_emulation {

namespace {

bool same_place(const Place& a, const Place& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || strcmp(a.file_name(), b.file_name()) == 0);
}

int reduce(BarrierReduction reduction, int true_predicates, int threads) {
  switch (reduction) {
    case BarrierReduction::kCount:
      return true_predicates;
    case BarrierReduction::kAnd:
      return true_predicates == threads;
    case BarrierReduction::kOr:
      return true_predicates > 0;
    case BarrierReduction::kNone:
      break;
  }
  return 0;
}

void open_barrier(BarrierReduction reduction) {
  ThreadBlock& block = running_block();
  const Thread& first = block.threads[0];
  int true_predicates = 0;
  for (int i = 0; i < block.thread_count; ++i) {
    const Thread& thread = block.threads[static_cast<size_t>(i)];
    true_predicates += thread.predicate ? 1 : 0;
    if (!same_place(thread.place, first.place))
      fail("divergent barrier: thread 0 is at %s:%u and thread %d at %s:%u", first.place.file_name(),
           first.place.line(), thread.number, thread.place.file_name(), thread.place.line());
  }
  const int result = reduce(reduction, true_predicates, block.thread_count);
  block.at_barrier = 0;
  ++block.barriers_passed;
  for (int i = 0; i < block.thread_count; ++i) {
    Thread& thread = block.threads[static_cast<size_t>(i)];
    thread.barrier_result = result;
    make_ready(thread);
  }
}

}  // namespace

int block_barrier(BarrierReduction reduction, bool predicate, const Place& place) {
  ThreadBlock& block = running_block();
  Thread& me = *running_thread();
  me.place = place;
  me.predicate = predicate;
  if (block.ended > 0)
    fail("divergent barrier: __syncthreads at %s:%u after %d threads of the block have ended", place.file_name(),
         place.line(), block.ended);
  OrderToken* const token = &block.block_order->barriers[block.barriers_passed % 2];
  release_order(token);
  me.state = ThreadState::kAtBarrier;
  if (++block.at_barrier == block.thread_count) open_barrier(reduction);
  wait_for_turn();
  acquire_order(token);
  return me.barrier_result;
}

void memory_fence() {
  // Allows "the last block sums up": partial results, a fence, an atomic counter, a fence, and the results of the
  // others.
  static char token;
  acquire_order(&token);
  release_order(&token);
}

}  // namespace cuda_emulation
