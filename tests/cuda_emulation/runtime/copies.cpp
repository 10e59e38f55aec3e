// cudaMemcpyAsync and cudaMemsetAsync. The forms without a stream are missing on purpose: they use the default stream,
// and a program that calls them does not link.
#include <cuda_runtime.h>

#include <cstring>
#include <memory>
#include <vector>

#include "runtime/allocations.h"
#include "runtime/devices.h"
#include "runtime/entry.h"
#include "runtime/failure.h"
#include "runtime/sanitizers.h"
#include "runtime/stream.h"

using namespace cuda_emulation;

namespace {

bool is_pinned(const void* memory) {
  const Allocation* allocation = find_allocation(memory);
  return allocation != nullptr && allocation->device == Allocation::kPinned;
}

void copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, int device) {
  if (kind == cudaMemcpyDeviceToHost)
    check_host_operand(to, bytes, true, "cudaMemcpyAsync to the host");
  else
    check_device_operand(device, to, bytes, true, "cudaMemcpyAsync to the device");
  if (kind == cudaMemcpyHostToDevice)
    check_host_operand(from, bytes, false, "cudaMemcpyAsync from the host");
  else
    check_device_operand(device, from, bytes, false, "cudaMemcpyAsync from the device");
  memmove(to, from, bytes);
}

/// The caller reads memory that is not pinned, before it enters the driver, where ThreadSanitizer does not look.
void note_pageable_read(const void* from, size_t bytes) {
  bool pinned = false;
  {
    const Entry entry;
    pinned = is_pinned(from);
    if (!pinned) check_host_operand(from, bytes, false, "cudaMemcpyAsync from the host");
  }
  if (!pinned) note_access(from, bytes, false);
}

/// Memory that is not pinned is read during the call, into a buffer of the driver.
cudaError_t copy_from_pageable(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  const auto* source = static_cast<const unsigned char*>(from);
  auto staged = std::make_shared<std::vector<unsigned char>>(source, source + bytes);
  enqueue(stream, {"copy to the device", [=] {
                     check_device_operand(stream->device, to, bytes, true, "cudaMemcpyAsync to the device");
                     memcpy(to, staged->data(), bytes);
                   }});
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (kind == cudaMemcpyHostToDevice) note_pageable_read(from, bytes);
  const Entry entry;
  if (const cudaError_t status = check_stream(stream, "cudaMemcpyAsync")) return status;
  if (kind != cudaMemcpyHostToDevice && kind != cudaMemcpyDeviceToHost && kind != cudaMemcpyDeviceToDevice)
    fail("cudaMemcpyAsync: name the direction of the copy");
  if (kind == cudaMemcpyHostToDevice && !is_pinned(from)) return copy_from_pageable(to, from, bytes, stream);
  enqueue(stream, {"copy", [=, device = stream->device] { copy(to, from, bytes, kind, device); }});
  if (kind == cudaMemcpyDeviceToHost && !is_pinned(to)) return cudaStreamSynchronize(stream);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  const Entry entry;
  if (const cudaError_t status = check_stream(stream, "cudaMemsetAsync")) return status;
  enqueue(stream, {"fill", [=, device = stream->device] {
                     check_device_operand(device, memory, bytes, true, "cudaMemsetAsync");
                     memset(memory, value, bytes);
                   }});
  return cudaSuccess;
}

}  // extern "C"
