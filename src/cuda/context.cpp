#include "cuda/context.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "cuda/error.h"
#include "cuda/library_error.h"
#include "cuda/memory.h"
#include "cuda/scratch.h"
#include "support/error.h"

namespace heddle::cuda {

namespace {

std::unique_ptr<Context> the_context;

/// Of cuBLAS, beside its workspace.
constexpr int64_t kLibraryBytes = int64_t{8} << 20;

DeviceProperties read_properties(int device) {
  cudaDeviceProp found;
  check(cudaGetDeviceProperties(&found, device), "cudaGetDeviceProperties");
  DeviceProperties properties;
  properties.name = found.name;
  for (const char byte : found.uuid.bytes) properties.uuid += fmt::format("{:02x}", static_cast<unsigned char>(byte));
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
  if (status == cudaSuccess && visible.count > 0) return visible;
  cudaGetLastError();  // seen here: later calls must not report it again
  return {0, status == cudaSuccess ? "none is visible" : cudaGetErrorString(status)};
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
  // Rows that are ready to travel do not wait for blocks of kernels that have not begun.
  int lowest = 0, highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
  check(cudaStreamCreateWithPriority(&communication_stream_, cudaStreamNonBlocking, highest),
        "cudaStreamCreateWithPriority");
  check(cudaEventCreateWithFlags(&compute_reached_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  check(cudaEventCreateWithFlags(&communication_reached_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  const auto [used, all] = memory_in_use();
  if (all - used < static_cast<int64_t>(options.cublas_workspace_bytes) + kLibraryBytes)
    throw Error(fmt::format("GPU {} has {:.0f} of {:.0f} MiB free, too little to start", device_,
                            static_cast<double>(all - used) / (1 << 20), static_cast<double>(all) / (1 << 20)),
                "other programs hold its memory: nvidia-smi names them");
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

template <typename Query>
void Context::wait(const char* call, const Query& query) const {
  using Clock = std::chrono::steady_clock;
  constexpr auto kInterval = std::chrono::milliseconds(1);
  constexpr double kMostBetweenLooks = 1;
  double waited = 0;
  auto last = Clock::now();
  for (;;) {
    const cudaError_t status = query();
    if (status != cudaErrorNotReady) return check(status, call);
    std::this_thread::yield();
    if (!watch_ || Clock::now() < last + kInterval) continue;
    waited += std::min(std::chrono::duration<double>(Clock::now() - last).count(), kMostBetweenLooks);
    watch_(waited);
    last = Clock::now();
  }
}

void Context::wait_for(cudaStream_t stream) const {
  if (!watch_) return check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  wait("cudaStreamQuery", [=] { return cudaStreamQuery(stream); });
}

void Context::wait_for_mark(cudaEvent_t mark) const {
  wait("cudaEventQuery", [=] { return cudaEventQuery(mark); });
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
