#include "device/cuda/cuda_memory.h"

#include <exception>

#include "cuda/context.h"
#include "cuda/memory.h"
#include "support/log.h"

namespace heddle {

void* CudaMemory::take(int64_t bytes) {
  try {
    return cuda::device_malloc(static_cast<size_t>(bytes));
  } catch (const cuda::OutOfDeviceMemory&) {
    return nullptr;  // the allocator gives back what it keeps, and asks again
  }
}

void CudaMemory::give(void* block, int64_t) noexcept {
  try {
    cuda::device_free(block);
  } catch (const std::exception& error) {
    log_warning(fmt::format("memory of the GPU could not be freed: {}", error.what()));
  }
}

// Host memory here is not pinned, so the copy returns when the host may use it again.
void CudaMemory::copy_in(void* to, const void* host, size_t bytes) {
  cuda::copy_to_device(to, host, bytes);
}

void CudaMemory::copy_out(void* host, const void* from, size_t bytes) {
  cuda::copy_to_host(host, from, bytes);
  cuda::context().synchronize_compute();
}

void CudaMemory::copy_within(void* to, const void* from, size_t bytes) {
  cuda::copy_on_device(to, from, bytes);
}

void CudaMemory::clear(void* at, size_t bytes) {
  cuda::fill_bytes(at, 0, bytes);
}

}  // namespace heddle
