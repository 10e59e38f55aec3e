#include "runtime/thread_block.h"

#include <cstdio>
#include <utility>

#include "runtime/async_copy.h"
#include "runtime/failure.h"
#include "runtime/fiber_pool.h"
#include "runtime/options.h"
#include "runtime/random.h"
#include "runtime/sanitizers.h"
#include "runtime/shared_arrays.h"

// What kernels read as constants (thread_index.h). Every switch to a thread sets threadIdx.
extern "C" {
uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;
int warpSize = cuda_emulation::kWarpSize;
}

namespace cuda_emulation {

namespace {

Thread* running = nullptr;
Fiber* host_fiber = nullptr;  ///< where run_block waits for the last thread

Thread* next_ready() {
  std::vector<int>& ready = running_block().ready;
  if (ready.empty()) return nullptr;
  Thread& thread = running_block().threads[static_cast<size_t>(ready.back())];
  ready.pop_back();
  return &thread;
}

void set_running(Thread* thread) {
  running = thread;
  if (thread != nullptr) threadIdx = thread->index;
}

const Thread* first_in(ThreadState state) {
  const ThreadBlock& block = running_block();
  for (int i = 0; i < block.thread_count; ++i)
    if (block.threads[static_cast<size_t>(i)].state == state) return &block.threads[static_cast<size_t>(i)];
  return nullptr;
}

[[noreturn]] void fail_stuck() {
  const ThreadBlock& block = running_block();
  const Thread* at_barrier = first_in(ThreadState::kAtBarrier);
  const Thread* in_warp = first_in(ThreadState::kInWarpOperation);
  running = nullptr;
  if (at_barrier != nullptr && in_warp != nullptr)
    fail(
        "deadlock: %d threads wait at __syncthreads (thread %d at %s:%u) and the others in warp operations (thread %d "
        "at %s:%u)",
        block.at_barrier, at_barrier->number, at_barrier->place.file_name(), at_barrier->place.line(), in_warp->number,
        in_warp->place.file_name(), in_warp->place.line());
  if (in_warp != nullptr)
    fail("deadlock: lanes wait in a warp operation that other lanes of its mask never call (thread %d at %s:%u)",
         in_warp->number, in_warp->place.file_name(), in_warp->place.line());
  fail("deadlock: %d of %d threads wait at __syncthreads (thread %d at %s:%u)", block.at_barrier, block.thread_count,
       at_barrier->number, at_barrier->place.file_name(), at_barrier->place.line());
}

void end_thread() {
  ThreadBlock& block = running_block();
  Thread& thread = *running;
  check_async_copies_are_done(thread);
  thread.state = ThreadState::kEnded;
  ++block.ended;
  Warp& warp = block.warps[static_cast<size_t>(thread.warp())];
  warp.ended |= thread.lane_bit();
  for (const PendingWarpOperation& pending : warp.pending)
    if (pending.mask & thread.lane_bit())
      fail("lane %d ended, but the mask %08x of the warp operation at %s:%u names it", thread.lane(), pending.mask,
           pending.place.file_name(), pending.place.line());
  if (const Thread* waiting = block.at_barrier > 0 ? first_in(ThreadState::kAtBarrier) : nullptr)
    fail("divergent barrier: thread %d ended while thread %d waits at __syncthreads at %s:%u", thread.number,
         waiting->number, waiting->place.file_name(), waiting->place.line());
  release_order(&block.grid_order->end);
}

/// What every fiber does: runs threads from their first to their last instruction, for ever.
void run_threads() {
  Fiber::arrived();
  for (;;) {
    acquire_order(&running_block().grid_order->start);
    running_block().body->run();
    end_thread();
    Fiber* const mine = std::exchange(running->fiber, nullptr);
    Thread* const next = next_ready();
    if (next != nullptr && next->fiber == nullptr && !under_thread_sanitizer()) {
      next->fiber = mine;
      set_running(next);
      continue;
    }
    if (next != nullptr && next->fiber == nullptr) next->fiber = take_fiber(run_threads);
    give_back_fiber(mine);
    if (next == nullptr && running_block().ended < running_block().thread_count) fail_stuck();
    set_running(next);
    Fiber::resume(*mine, next != nullptr ? *next->fiber : *host_fiber);
  }
}

void prepare_threads() {
  ThreadBlock& block = running_block();
  const dim3 size = blockDim;
  block.ended = block.at_barrier = 0;
  block.barriers_passed = 0;
  block.ready.clear();
  for (Warp& warp : block.warps) {
    warp.pending.clear();
    warp.ended = warp.syncs_begun = 0;
  }
  int number = 0;
  for (unsigned z = 0; z < size.z; ++z)
    for (unsigned y = 0; y < size.y; ++y)
      for (unsigned x = 0; x < size.x; ++x) {
        Thread& thread = block.threads[static_cast<size_t>(number)];
        thread.index = {x, y, z};
        thread.number = number++;
        thread.fiber = nullptr;
        make_ready(thread);
      }
}

void create_block_order() {
  const UnwatchedScope unwatched;
  running_block().block_order = new BlockOrder;
}

void free_block_order() {
  const UnwatchedScope unwatched;
  delete running_block().block_order;
}

}  // namespace

ThreadBlock& running_block() {
  static auto* block = new ThreadBlock;  // never destroyed: fail() may read it while the process ends
  return *block;
}

Thread* running_thread() {
  return running;
}

void make_ready(Thread& thread) {
  std::vector<int>& ready = running_block().ready;
  thread.state = ThreadState::kReady;
  ready.push_back(thread.number);
  if (options().shuffle) std::swap(ready.back(), ready[random_below(static_cast<uint32_t>(ready.size()))]);
}

void wait_for_turn() {
  Thread* const me = running;
  Thread* const next = next_ready();
  if (next == nullptr) fail_stuck();
  if (next == me) return;
  if (next->fiber == nullptr) next->fiber = take_fiber(run_threads);
  set_running(next);
  Fiber::resume(*me->fiber, *next->fiber);
}

void run_block(uint3 block_index) {
  blockIdx = block_index;
  choose_fibers();
  prepare_threads();
  create_block_order();
  create_dynamic_shared();
  Fiber here = Fiber::of_caller();
  host_fiber = &here;
  Thread* const first = next_ready();
  first->fiber = take_fiber(run_threads);
  set_running(first);
  Fiber::resume(here, *first->fiber);
  host_fiber = nullptr;
  free_shared();
  free_block_order();
}

void print_running_thread() {
  if (running == nullptr) return;
  const LaunchRequest& launch = *running_block().launch;
  fprintf(stderr, "  in the kernel that was launched at %s:%d, block (%u, %u, %u), thread (%u, %u, %u)\n", launch.file,
          launch.line, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
}

}  // namespace cuda_emulation
