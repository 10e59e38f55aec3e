// Streams: queues of operations that are done in order, each stream at its own pace. Nothing runs at the side:
// operations make progress inside calls of the host, when and in which order of streams the seed decides. An operation
// happens after the call that enqueued it and after what stands before it in its stream; anything else needs an event
// or a wait.
#pragma once

#include <cuda_runtime.h>

#include <deque>
#include <functional>

#include "runtime/order_token.h"

namespace cuda_emulation {

struct Operation {
  const char* what;
  std::function<void()> start;
  std::function<bool()> can_start = {};  ///< asked until true; empty: at once
  std::function<bool()> is_done = {};    ///< asked until true after the start; empty: done when start returns

  bool started = false;
  OrderToken* enqueued = nullptr;
};

/// Appends an operation to a stream, and perhaps lets some work be done.
void enqueue(cudaStream_t stream, Operation operation);

/// Lets every stream do what it can without waiting. False if none could do anything.
bool make_progress();

/// Makes progress until `done`. Fails where that can never be, since no stream can do anything by itself and none waits
/// for another process. `what` names the caller.
void progress_until(const std::function<bool()>& done, const char* what);

/// cudaSuccess, or the error for a call with the default stream, which nothing here may use.
cudaError_t check_stream(cudaStream_t stream, const char* call);

/// The host waits for all work of the device's streams (any device: -1).
void wait_for_device(int device, const char* what);

}  // namespace cuda_emulation

struct CUstream_st {
  int device = 0;
  std::deque<cuda_emulation::Operation> queue;
  void* identity = nullptr;             ///< ThreadSanitizer takes each stream for a thread
  cuda_emulation::OrderToken progress;  ///< released after each operation
};
