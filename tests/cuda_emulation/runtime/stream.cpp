#include "runtime/stream.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/allocations.h"
#include "runtime/devices.h"
#include "runtime/entry.h"
#include "runtime/failure.h"
#include "runtime/host_calls.h"
#include "runtime/options.h"
#include "runtime/random.h"
#include "runtime/sanitizers.h"

namespace cuda_emulation {

namespace {

/// All streams, in the order of their creation.
std::vector<CUstream_st*>& streams() {
  static auto* list = new std::vector<CUstream_st*>;
  return *list;
}

constexpr int kImpatientPasses = 100;  ///< of waiting for another process, before the processor is left to it

bool making_progress = false;
bool waits_for_others = false;  ///< in the last pass some stream waited for another process

/// As the stream's thread for ThreadSanitizer.
class StreamScope {
 public:
  explicit StreamScope(CUstream_st* stream) : host_(current_thread_identity()) { become_thread(stream->identity); }
  ~StreamScope() { become_thread(host_); }
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  void* host_;
};

bool has_work() {
  return std::any_of(streams().begin(), streams().end(), [](const CUstream_st* s) { return !s->queue.empty(); });
}

/// Starts the stream's first operation if it can start, and asks whether it is done.
bool try_first_operation(CUstream_st* stream) {
  Operation& operation = stream->queue.front();
  if (!operation.started && operation.can_start && !operation.can_start()) return false;
  const StreamScope scope(stream);
  if (!operation.started) {
    operation.started = true;
    acquire_order(operation.enqueued);
    operation.start();
  }
  if (operation.is_done && !operation.is_done()) {
    waits_for_others = true;
    return false;
  }
  release_order(&stream->progress);
  return true;
}

/// True if any operation was done.
bool advance(CUstream_st* stream) {
  bool any = false;
  while (!stream->queue.empty() && try_first_operation(stream)) {
    any = true;
    delete stream->queue.front().enqueued;
    stream->queue.pop_front();
    if (options().stream_order == StreamOrder::kRandom && random_below(4) == 0) break;
  }
  return any;
}

void maybe_make_progress() {
  switch (options().stream_order) {
    case StreamOrder::kEager:
      while (make_progress()) {
      }
      break;
    case StreamOrder::kLazy:
      break;
    case StreamOrder::kRandom:
      for (uint32_t passes = random_below(3); passes > 0; --passes) make_progress();
  }
}

}  // namespace

void enqueue(cudaStream_t stream, Operation operation) {
  operation.enqueued = new OrderToken;
  release_order(operation.enqueued);
  stream->queue.push_back(std::move(operation));
  maybe_make_progress();
}

bool make_progress() {
  if (making_progress) return false;
  waits_for_others = false;
  if (!has_work()) return false;
  making_progress = true;
  bool any = false;
  const DeviceScope device_works;
  const size_t count = streams().size(), first = random_below(static_cast<uint32_t>(count));
  for (size_t i = 0; i < count; ++i) any |= advance(streams()[(first + i) % count]);
  making_progress = false;
  return any;
}

void progress_until(const std::function<bool()>& done, const char* what) {
  int idle_passes = 0;
  while (!done()) {
    if (make_progress()) {
      idle_passes = 0;
      continue;
    }
    if (done()) return;
    if (!waits_for_others) fail("%s waits for ever: no stream can go on", what);
    let_others_enter();
    if (++idle_passes > kImpatientPasses) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

cudaError_t check_stream(cudaStream_t stream, const char* call) {
  if (driver_status() != cudaSuccess) return report(driver_status());
  if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread)
    fail("%s on the default stream: name a stream", call);
  const auto& all = streams();
  if (std::find(all.begin(), all.end(), stream) == all.end()) return report(cudaErrorInvalidResourceHandle);
  return cudaSuccess;
}

void wait_for_device(int device, const char* what) {
  const auto of_device = [device](const CUstream_st* stream) { return device < 0 || stream->device == device; };
  progress_until(
      [&] {
        return std::all_of(streams().begin(), streams().end(),
                           [&](const CUstream_st* stream) { return !of_device(stream) || stream->queue.empty(); });
      },
      what);
  for (CUstream_st* stream : streams())
    if (of_device(stream)) acquire_order(&stream->progress);
}

}  // namespace cuda_emulation

using namespace cuda_emulation;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const Entry entry;
  link_host_calls();
  if (driver_status() != cudaSuccess) return report(driver_status());
  *stream = new CUstream_st;
  (*stream)->device = current_device();
  (*stream)->identity = create_thread_identity();
  streams().push_back(*stream);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  const Entry entry;
  if (driver_status() != cudaSuccess) return report(driver_status());
  *lowest = 0;
  *highest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}

/// Work that is still enqueued is done before the stream goes, without the host knowing when.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Entry entry;
  if (const cudaError_t status = check_stream(stream, "cudaStreamDestroy")) return status;
  progress_until([stream] { return stream->queue.empty(); }, "cudaStreamDestroy");
  streams().erase(std::find(streams().begin(), streams().end(), stream));
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Entry entry;
  if (const cudaError_t status = check_stream(stream, "cudaStreamSynchronize")) return status;
  progress_until([stream] { return stream->queue.empty(); }, "cudaStreamSynchronize");
  acquire_order(&stream->progress);
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Entry entry;
  if (const cudaError_t status = check_stream(stream, "cudaStreamQuery")) return status;
  make_progress();
  if (!stream->queue.empty()) return cudaErrorNotReady;
  acquire_order(&stream->progress);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  const Entry entry;
  if (driver_status() != cudaSuccess) return report(driver_status());
  wait_for_device(current_device(), "cudaDeviceSynchronize");
  return cudaSuccess;
}

}  // extern "C"
