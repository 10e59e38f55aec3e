// Memory of the GPU and pinned memory of the host, and copies between them. Needs the context.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "cuda/copies.h"
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

/// Bytes of the device that are in use, by this process or others, and bytes that it has.
std::pair<int64_t, int64_t> memory_in_use();

/// Uninitialised host memory that the GPU reads and writes directly; nullptr for 0 bytes.
void* pinned_malloc(size_t bytes);
void pinned_free(void* memory);

}  // namespace heddle::cuda
