#include "bench/device/device_clock.h"

#include <chrono>

#ifdef HEDDLE_WITH_CUDA
#include "cuda/context.h"
#include "cuda/error.h"
#endif

namespace heddle::bench {

#ifdef HEDDLE_WITH_CUDA
namespace {

cudaEvent_t event(void* handle) {
  return static_cast<cudaEvent_t>(handle);
}

void* new_event() {
  cudaEvent_t made = nullptr;
  cuda::check(cudaEventCreateWithFlags(&made, cudaEventDefault), "cudaEventCreateWithFlags");
  return made;
}

}  // namespace
#endif

DeviceClock::DeviceClock(const Device& device) : gpu_(device.name == "cuda") {
#ifdef HEDDLE_WITH_CUDA
  if (gpu_) {
    begin_ = new_event();
    end_ = new_event();
  }
#endif
}

DeviceClock::~DeviceClock() {
#ifdef HEDDLE_WITH_CUDA
  if (begin_ != nullptr) cudaEventDestroy(event(begin_));
  if (end_ != nullptr) cudaEventDestroy(event(end_));
#endif
}

void DeviceClock::wait() {
#ifdef HEDDLE_WITH_CUDA
  if (gpu_) cuda::context().synchronize_compute();
#endif
}

double DeviceClock::seconds(const std::function<void()>& work) {
#ifdef HEDDLE_WITH_CUDA
  if (gpu_) {
    const cudaStream_t stream = cuda::context().compute_stream();
    cuda::check(cudaEventRecord(event(begin_), stream), "cudaEventRecord");
    work();
    cuda::check(cudaEventRecord(event(end_), stream), "cudaEventRecord");
    wait();
    float milliseconds = 0;
    cuda::check(cudaEventElapsedTime(&milliseconds, event(begin_), event(end_)), "cudaEventElapsedTime");
    return 1e-3 * static_cast<double>(milliseconds);
  }
#endif
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace heddle::bench
