// Launches: limits of the device, checks of arguments, and the operation that runs the grid.
#include <cuda_emulation/launch.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/allocations.h"
#include "runtime/device_limits.h"
#include "runtime/devices.h"
#include "runtime/entry.h"
#include "runtime/failure.h"
#include "runtime/grid.h"
#include "runtime/stream.h"

namespace cuda_emulation {

namespace {

/// Kernel -> bytes of dynamic shared memory that cudaFuncSetAttribute allowed.
std::map<const void*, size_t>& allowed_dynamic_shared() {
  static auto* allowed = new std::map<const void*, size_t>;
  return *allowed;
}

size_t most_dynamic_shared(const void* kernel) {
  const auto allowed = allowed_dynamic_shared().find(kernel);
  return allowed != allowed_dynamic_shared().end() ? allowed->second : kSharedBytes;
}

cudaError_t check_limits(const LaunchRequest& request) {
  const dim3 &grid = request.grid, &block = request.block;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0)
    return cudaErrorInvalidConfiguration;
  if (grid.x > kMostBlocksX || grid.y > kMostBlocksYZ || grid.z > kMostBlocksYZ) return cudaErrorInvalidConfiguration;
  if (block.x > kMostThreadsPerBlock || block.y > kMostThreadsPerBlock || block.z > kMostBlockDepth)
    return cudaErrorInvalidConfiguration;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads > kMostThreadsPerBlock) return cudaErrorInvalidConfiguration;
  if (request.dynamic_shared_bytes > most_dynamic_shared(request.kernel)) return cudaErrorInvalidValue;
  if (threads % kWarpSize != 0)
    fail("%s:%d: a block of %llu threads: whole warps are the rule here", request.file, request.line,
         static_cast<unsigned long long>(threads));
  return cudaSuccess;
}

/// A launch in its stream, with the pointers that the kernel was given.
class EnqueuedKernel {
 public:
  EnqueuedKernel(const LaunchRequest& request, std::unique_ptr<KernelBody> body,
                 std::span<const PointerArgument> pointers)
      : request_(request), body_(std::move(body)), pointers_(pointers.begin(), pointers.end()) {}

  void run() const {
    run_grid(request_, *body_);
    const UnwatchedScope unwatched;  // the text stands where the host's stack has been and will be
    char who[256];
    snprintf(who, sizeof(who), "the kernel launched at %s:%d", request_.file, request_.line);
    for (const PointerArgument& argument : pointers_)
      if (const Allocation* allocation = find_allocation_or_end(argument.pointer)) check_red_zone(*allocation, who);
  }

 private:
  LaunchRequest request_;
  std::unique_ptr<KernelBody> body_;
  std::vector<PointerArgument> pointers_;
};

void check_pointer(const LaunchRequest& request, const PointerArgument& argument) {
  if (argument.pointer == nullptr) return;
  const Allocation* allocation = find_allocation_or_end(argument.pointer);
  if (allocation == nullptr)
    fail("%s:%d: argument %d of the kernel, %p, is neither device memory nor pinned host memory", request.file,
         request.line, argument.number, argument.pointer);
  if (allocation->device != Allocation::kPinned && allocation->device != request.stream->device)
    fail("%s:%d: argument %d of the kernel, %p, is memory of device %d, and the stream belongs to device %d",
         request.file, request.line, argument.number, argument.pointer, allocation->device, request.stream->device);
}

}  // namespace

cudaError_t enqueue_kernel(const LaunchRequest& request, std::span<const PointerArgument> pointers,
                           std::unique_ptr<KernelBody> body) {
  const Entry entry;
  if (const cudaError_t status = check_stream(request.stream, "a launch")) return status;
  if (const cudaError_t status = check_limits(request)) return report(status);
  for (const PointerArgument& argument : pointers) check_pointer(request, argument);
  const auto kernel = std::make_shared<EnqueuedKernel>(request, std::move(body), pointers);
  enqueue(request.stream, {"kernel", [kernel] { kernel->run(); }});
  return cudaSuccess;
}

}  // namespace cuda_emulation

using namespace cuda_emulation;

extern "C" {

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  const Entry entry;
  if (driver_status() != cudaSuccess) return report(driver_status());
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
    fail("cudaFuncSetAttribute: the emulation does not know attribute %d", static_cast<int>(attribute));
  if (value < 0 || static_cast<size_t>(value) > kMostSharedBytes) return report(cudaErrorInvalidValue);
  allowed_dynamic_shared()[kernel] = static_cast<size_t>(value);
  return cudaSuccess;
}

}  // extern "C"
