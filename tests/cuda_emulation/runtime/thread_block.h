// The block that runs: its threads, what each waits for, and who runs next. One block runs at a time, its threads in an
// order that the seed decides. A thread runs until it waits at a barrier or in an operation of its warp, or ends; one
// that never waits needs no switch at all, since the next thread starts on its fiber.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <cuda_emulation/barriers.h>
#include <cuda_emulation/launch.h>
#include <cuda_emulation/warp.h>

#include "runtime/device_limits.h"
#include "runtime/fiber.h"
#include "runtime/order_token.h"

namespace cuda_emulation {

enum class ThreadState : uint8_t { kReady, kAtBarrier, kInWarpOperation, kEnded };

struct Thread {
  uint3 index;  ///< threadIdx
  int number;   ///< position in the block; lane and warp follow from it
  ThreadState state;
  Fiber* fiber;  ///< nullptr before the first instruction and after the last
  Place place;   ///< of the barrier or warp operation that it called last
  bool predicate;
  int barrier_result;

  int lane() const { return number % kWarpSize; }
  int warp() const { return number / kWarpSize; }
  unsigned lane_bit() const { return 1u << lane(); }
};

/// What a lane brings to a warp operation and gets.
struct LaneOperands {
  alignas(16) unsigned char in[64];
  alignas(16) unsigned char out[16];
  int lane_argument;
  size_t in_bytes;
};

/// Order tokens for ThreadSanitizer (sanitizers.h), on the heap so that it forgets them with the grid or block.
/// Barriers alternate between two, since some threads may reach the next one before others have left the last.
struct GridOrder {
  OrderToken start, end;
};
struct BlockOrder {
  OrderToken barriers[2];
  OrderToken warp_syncs[kMostThreadsPerBlock / kWarpSize][2];
};

/// A warp operation that some lanes of its mask have reached.
struct PendingWarpOperation {
  WarpOperation operation;
  unsigned mask, arrived;
  int width;
  Place place;
  OrderToken* order_token;
};

struct AsyncCopy {
  void* to;
  const void* from;  ///< nullptr: zeros
  size_t bytes;
  int group;
  Place place;
};

/// Copies that a thread has begun and not waited for, oldest first.
struct AsyncCopies {
  std::vector<AsyncCopy> under_way;
  int groups = 0;  ///< committed so far
};

struct Warp {
  std::vector<PendingWarpOperation> pending;
  unsigned ended;  ///< lanes whose thread has ended
  unsigned syncs_begun;
};

/// Static or dynamic shared memory of the block, between two red zones.
struct SharedArray {
  const void* identity;
  unsigned char* memory;
  size_t bytes;
  Place place;
};

struct ThreadBlock {
  const LaunchRequest* launch = nullptr;
  const KernelBody* body = nullptr;
  int thread_count = 0, ended = 0, at_barrier = 0;
  std::vector<Thread> threads;
  std::vector<LaneOperands> lane_operands;  ///< by thread
  std::vector<AsyncCopies> async_copies;    ///< by thread
  std::vector<Warp> warps;
  std::vector<int> ready;  ///< numbers of the threads that can run, in random order; the last is next
  std::vector<SharedArray> shared;
  size_t static_shared_bytes = 0;
  unsigned barriers_passed = 0;
  GridOrder* grid_order = nullptr;
  BlockOrder* block_order = nullptr;
};

ThreadBlock& running_block();
/// The thread that runs; nullptr on the host.
Thread* running_thread();

/// Runs all threads of the block at `block_index`; launch, body, threads, warps and grid_order of running_block() are
/// set.
void run_block(uint3 block_index);

/// From inside a thread. It becomes runnable in its turn.
void make_ready(Thread& thread);
/// Lets other threads run until this one is made ready and its turn comes. Fails if no thread can run.
void wait_for_turn();

/// For messages: kernel, block and thread that run, if any do.
void print_running_thread();

}  // namespace cuda_emulation
