#include "cuda/memory.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <exception>

#include "cuda/context.h"
#include "cuda/error.h"

namespace heddle::cuda {

namespace {

/// From host memory that is not pinned the driver takes at most this much at once; for more it waits for the stream.
constexpr size_t kTakenAtOnce = size_t{64} << 10;

void copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, const char* call) {
  if (bytes == 0) return;
  // Where the call would wait, the context waits before it: it also looks after the other ranks.
  const bool waits = kind == cudaMemcpyDeviceToHost || (kind == cudaMemcpyHostToDevice && bytes > kTakenAtOnce);
  if (waits) context().synchronize_compute();
  check(cudaMemcpyAsync(to, from, bytes, kind, context().compute_stream()), call);
}

}  // namespace

void* device_malloc(size_t bytes) {
  if (bytes == 0) return nullptr;
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // reported here: later calls must not see it again
    const auto [used, all] = memory_in_use();
    throw OutOfDeviceMemory(
        fmt::format("GPU {} has no room for {:.1f} MiB: {:.1f} of {:.1f} MiB are free", context().device(),
                    static_cast<double>(bytes) / (1 << 20), static_cast<double>(all - used) / (1 << 20),
                    static_cast<double>(all) / (1 << 20)),
        "use smaller micro-batches, more recomputation or more GPUs");
  }
  check(status, "cudaMalloc");
  return memory;
}

void device_free(void* memory) {
  if (memory == nullptr) return;
  // The context waits rather than cudaFree: it also looks after the other ranks. While an error unwinds, nobody waits.
  if (has_context() && std::uncaught_exceptions() == 0) {
    context().synchronize_compute();
    context().synchronize_communication();
  }
  check(cudaFree(memory), "cudaFree");
}

std::pair<int64_t, int64_t> memory_in_use() {
  size_t free_bytes = 0, total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  return {static_cast<int64_t>(total_bytes - free_bytes), static_cast<int64_t>(total_bytes)};
}

void* pinned_malloc(size_t bytes) {
  if (bytes == 0) return nullptr;
  void* memory = nullptr;
  check(cudaMallocHost(&memory, bytes), "cudaMallocHost");
  return memory;
}

void pinned_free(void* memory) {
  if (memory != nullptr) check(cudaFreeHost(memory), "cudaFreeHost");
}

void copy_to_device(void* device, const void* host, size_t bytes) {
  copy(device, host, bytes, cudaMemcpyHostToDevice, "copy from host to device");
}

void copy_to_host(void* host, const void* device, size_t bytes) {
  copy(host, device, bytes, cudaMemcpyDeviceToHost, "copy from device to host");
}

void copy_on_device(void* to, const void* from, size_t bytes) {
  copy(to, from, bytes, cudaMemcpyDeviceToDevice, "copy on the device");
}

void fill_bytes(void* device, unsigned char value, size_t bytes) {
  if (bytes == 0) return;
  check(cudaMemsetAsync(device, value, bytes, context().compute_stream()), "cudaMemsetAsync");
}

}  // namespace heddle::cuda
