// Device memory and pinned host memory. All device memory lies in one reserved stretch of addresses, so that one call
// protects it while the host works (CUDA_EMULATION_PROTECT). Every allocation has a red zone behind it and starts
// filled with 0xff; what was freed is used again as late as possible.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace cuda_emulation {

struct Allocation {
  unsigned char* memory;
  size_t bytes;
  int device;  ///< index into visible_devices(); kPinned for host memory
  static constexpr int kPinned = -1;
};

/// nullptr if the device has too little left.
void* allocate_on_device(int device, size_t bytes);
void* allocate_pinned(size_t bytes);
/// Fail unless `memory` is the start of an allocation of that kind.
void free_on_device(void* memory);
void free_pinned(void* memory);
size_t device_bytes_in_use(int device);

/// The allocation that holds this byte, or nullptr.
const Allocation* find_allocation(const void* memory);
/// The same, or the one that ends right before this byte.
const Allocation* find_allocation_or_end(const void* memory);

/// Fails if something wrote into the red zone behind it; `who` may have.
void check_red_zone(const Allocation& allocation, const char* who);

/// An operand of work on `device`: fails unless all its bytes are allocated and reachable from there, and tells
/// ThreadSanitizer. `what` names the call and the operand.
void check_device_operand(int device, const void* memory, size_t bytes, bool write, const char* what);
/// An operand on the host: fails if any of its bytes is device memory.
void check_host_operand(const void* memory, size_t bytes, bool write, const char* what);

/// While one exists, the device works and its memory can be touched.
class DeviceScope {
 public:
  DeviceScope();
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
};

}  // namespace cuda_emulation
