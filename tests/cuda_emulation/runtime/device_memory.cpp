// cudaMalloc and its kin. Freeing waits for the device, as the real calls do.
#include <cuda_runtime.h>

#include "runtime/allocations.h"
#include "runtime/devices.h"
#include "runtime/entry.h"
#include "runtime/stream.h"

using namespace cuda_emulation;

extern "C" {

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  const Entry entry;
  if (driver_status() != cudaSuccess) return report(driver_status());
  *memory = nullptr;
  if (bytes == 0) return cudaSuccess;
  *memory = allocate_on_device(current_device(), bytes);
  return report(*memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void* memory) {
  const Entry entry;
  if (driver_status() != cudaSuccess) return report(driver_status());
  if (memory == nullptr) return cudaSuccess;
  wait_for_device(-1, "cudaFree");
  free_on_device(memory);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  const Entry entry;
  if (driver_status() != cudaSuccess) return report(driver_status());
  *memory = bytes == 0 ? nullptr : allocate_pinned(bytes);
  return report(*memory != nullptr || bytes == 0 ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  return cudaHostAlloc(memory, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void* memory) {
  const Entry entry;
  if (driver_status() != cudaSuccess) return report(driver_status());
  if (memory == nullptr) return cudaSuccess;
  wait_for_device(-1, "cudaFreeHost");
  free_pinned(memory);
  return cudaSuccess;
}

}  // extern "C"
