// Events: points in a stream that another stream or the host waits for.
#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <memory>

#include "runtime/devices.h"
#include "runtime/entry.h"
#include "runtime/order_token.h"
#include "runtime/sanitizers.h"
#include "runtime/stream.h"

using namespace cuda_emulation;

namespace {

using Clock = std::chrono::steady_clock;

/// Outlives the handle, since streams may still have to reach it.
struct EventState {
  uint64_t recorded = 0, reached = 0;  ///< numbers of cudaEventRecord calls
  bool timing = false;
  Clock::time_point time;
  OrderToken order;
};

}  // namespace

struct CUevent_st {
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
};

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const Entry entry;
  if (driver_status() != cudaSuccess) return report(driver_status());
  *event = new CUevent_st;
  (*event)->state->timing = (flags & cudaEventDisableTiming) == 0;
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Entry entry;
  if (event == nullptr) return report(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Entry entry;
  if (const cudaError_t status = check_stream(stream, "cudaEventRecord")) return status;
  const uint64_t number = ++event->state->recorded;
  enqueue(stream, {"event record", [state = event->state, number] {
                     state->reached = number;
                     state->time = Clock::now();
                     release_order(&state->order);
                   }});
  return cudaSuccess;
}

/// Waits for the last record before this call; an event that was never recorded holds nothing up.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Entry entry;
  if (const cudaError_t status = check_stream(stream, "cudaStreamWaitEvent")) return status;
  const uint64_t number = event->state->recorded;
  enqueue(stream, {"event wait", [state = event->state] { acquire_order(&state->order); },
                   [state = event->state, number] { return state->reached >= number; }});
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Entry entry;
  if (driver_status() != cudaSuccess) return report(driver_status());
  const uint64_t number = event->state->recorded;
  progress_until([&] { return event->state->reached >= number; }, "cudaEventSynchronize");
  acquire_order(&event->state->order);
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Entry entry;
  if (driver_status() != cudaSuccess) return report(driver_status());
  make_progress();
  if (event->state->reached < event->state->recorded) return cudaErrorNotReady;
  acquire_order(&event->state->order);
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const Entry entry;
  if (driver_status() != cudaSuccess) return report(driver_status());
  const EventState &first = *begin->state, &second = *end->state;
  if (!first.timing || !second.timing || first.recorded == 0 || second.recorded == 0)
    return report(cudaErrorInvalidResourceHandle);
  if (first.reached < first.recorded || second.reached < second.recorded) return report(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(second.time - first.time).count();
  return cudaSuccess;
}

}  // extern "C"
