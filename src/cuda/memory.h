// Memory of the GPU and pinned memory of the host, and copies between them. Needs the context. Copies and fills are
// enqueued on the compute stream: they see what was enqueued there before, and the host must wait
// (Context::synchronize_compute) before it reads what was copied to it or changes what is copied from it. Host memory
// that is not pinned works too, slower: the call then returns when the host memory is free again.
#pragma once

#include <cstddef>

#include "support/error.h"

namespace heddle::cuda {

/// The GPU has less memory left than was asked for. The message says how much.
class OutOfDeviceMemory : public Error {
 public:
  using Error::Error;
};

/// Uninitialised memory, at least 256-byte aligned; nullptr for 0 bytes. Throws OutOfDeviceMemory.
void* device_malloc(size_t bytes);
/// Waits for all work of the device first. Frees nothing for nullptr.
void device_free(void* memory);

/// Uninitialised host memory that the GPU reads and writes directly; nullptr for 0 bytes.
void* pinned_malloc(size_t bytes);
void pinned_free(void* memory);

void copy_to_device(void* device, const void* host, size_t bytes);
void copy_to_host(void* host, const void* device, size_t bytes);
/// Between two places of this GPU that do not overlap.
void copy_on_device(void* to, const void* from, size_t bytes);
/// Every byte becomes `value`.
void fill_bytes(void* device, unsigned char value, size_t bytes);

}  // namespace heddle::cuda
