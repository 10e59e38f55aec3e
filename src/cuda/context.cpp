#include "cuda/context.h"

#include <chrono>
#include <memory>
#include <thread>

#include "cuda/error.h"
#include "cuda/library_error.h"
#include "cuda/scratch.h"
#include "support/error.h"

namespace heddle::cuda {

namespace {

std::unique_ptr<Context> the_context;

DeviceProperties read_properties(int device) {
  cudaDeviceProp found;
  check(cudaGetDeviceProperties(&found, device), "cudaGetDeviceProperties");
  DeviceProperties properties;
  properties.name = found.name;
  properties.major = found.major;
  properties.minor = found.minor;
  properties.multiprocessors = found.multiProcessorCount;
  properties.memory_bytes = static_cast<int64_t>(found.totalGlobalMem);
  properties.shared_bytes_per_block = static_cast<int64_t>(found.sharedMemPerBlockOptin);
  return properties;
}

void wait_for_stream(cudaStream_t waiting, cudaStream_t awaited, cudaEvent_t event) {
  check(cudaEventRecord(event, awaited), "cudaEventRecord");
  check(cudaStreamWaitEvent(waiting, event, 0), "cudaStreamWaitEvent");
}

}  // namespace

VisibleDevices visible_devices() {
  VisibleDevices visible;
  const cudaError_t status = cudaGetDeviceCount(&visible.count);
  if (status == cudaErrorInsufficientDriver || status == cudaErrorNoDevice) {
    cudaGetLastError();  // seen here: later calls must not report it again
    return {0, cudaGetErrorString(status)};
  }
  check(status, "cudaGetDeviceCount");
  return visible;
}

Context::Context(const ContextOptions& options) : device_(options.device) {
  try {
    open(options);
  } catch (...) {
    close();
    throw;
  }
}

Context::~Context() {
  close();
}

void Context::open(const ContextOptions& options) {
  const VisibleDevices visible = visible_devices();
  if (visible.count == 0)
    throw Error("there is no GPU to run on: " + visible.why_none,
                "look at nvidia-smi and at CUDA_VISIBLE_DEVICES, or run on the processor");
  if (device_ < 0 || device_ >= visible.count)
    fail("there is no GPU {}: this process sees {}, numbered from 0", device_, visible.count);
  check(cudaSetDevice(device_), "cudaSetDevice");
  properties_ = read_properties(device_);
  check(cudaStreamCreateWithFlags(&compute_stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check(cudaStreamCreateWithFlags(&communication_stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check(cudaEventCreateWithFlags(&compute_reached_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  check(cudaEventCreateWithFlags(&communication_reached_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  check(cublasCreate(&cublas_), "cublasCreate");
  check(cublasSetStream(cublas_, compute_stream_), "cublasSetStream");  // before the workspace, which it would reset
  check(cudaMalloc(&cublas_workspace_, options.cublas_workspace_bytes), "cudaMalloc");
  check(cublasSetWorkspace(cublas_, cublas_workspace_, options.cublas_workspace_bytes), "cublasSetWorkspace");
  const cublasMath_t mode = options.math == MathMode::kPedantic ? CUBLAS_PEDANTIC_MATH : CUBLAS_DEFAULT_MATH;
  check(cublasSetMathMode(cublas_, mode), "cublasSetMathMode");
}

void Context::close() {
  release_scratch();
  if (compute_stream_) cudaStreamSynchronize(compute_stream_);
  if (communication_stream_) cudaStreamSynchronize(communication_stream_);
  if (cublas_) cublasDestroy(cublas_);
  if (cublas_workspace_) cudaFree(cublas_workspace_);
  for (const cudaEvent_t mark : spare_marks_) cudaEventDestroy(mark);
  if (compute_reached_) cudaEventDestroy(compute_reached_);
  if (communication_reached_) cudaEventDestroy(communication_reached_);
  if (compute_stream_) cudaStreamDestroy(compute_stream_);
  if (communication_stream_) cudaStreamDestroy(communication_stream_);
}

void Context::communication_waits_for_compute() {
  wait_for_stream(communication_stream_, compute_stream_, compute_reached_);
}

void Context::compute_waits_for_communication() {
  wait_for_stream(compute_stream_, communication_stream_, communication_reached_);
}

cudaEvent_t Context::mark_communication() {
  cudaEvent_t mark = nullptr;
  if (spare_marks_.empty()) {
    check(cudaEventCreateWithFlags(&mark, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  } else {
    mark = spare_marks_.back();
    spare_marks_.pop_back();
  }
  check(cudaEventRecord(mark, communication_stream_), "cudaEventRecord");
  return mark;
}

void Context::compute_waits_for(cudaEvent_t mark) {
  check(cudaStreamWaitEvent(compute_stream_, mark, 0), "cudaStreamWaitEvent");
}

void Context::wait_for(cudaStream_t stream) const {
  if (!watch_) return check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  using Clock = std::chrono::steady_clock;
  constexpr auto kInterval = std::chrono::milliseconds(1);
  const auto start = Clock::now();
  auto next = start + kInterval;
  for (;;) {
    const cudaError_t status = cudaStreamQuery(stream);
    if (status != cudaErrorNotReady) return check(status, "cudaStreamQuery");
    std::this_thread::yield();
    if (Clock::now() < next) continue;
    watch_(std::chrono::duration<double>(Clock::now() - start).count());
    next = Clock::now() + kInterval;
  }
}

void Context::synchronize_compute() {
  wait_for(compute_stream_);
}

void Context::synchronize_communication() {
  wait_for(communication_stream_);
}

Context& create_context(const ContextOptions& options) {
  if (the_context) fail("the GPU context exists already, on device {}", the_context->device());
  the_context = std::make_unique<Context>(options);
  return *the_context;
}

void destroy_context() {
  the_context.reset();
}

bool has_context() {
  return the_context != nullptr;
}

Context& context() {
  require(the_context != nullptr, "the GPU is used before create_context");
  return *the_context;
}

}  // namespace heddle::cuda
