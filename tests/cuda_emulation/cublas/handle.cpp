#include "cublas/handle.h"

#include <cstdint>

#include "runtime/allocations.h"
#include "runtime/devices.h"
#include "runtime/entry.h"
#include "runtime/failure.h"
#include "runtime/stream.h"

using namespace cuda_emulation;

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  const Entry entry;
  if (driver_status() != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasContext;
  (*handle)->device = current_device();
  return CUBLAS_STATUS_SUCCESS;
}

/// Waits for the device, as the real call does.
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  const Entry entry;
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  wait_for_device(handle->device, "cublasDestroy");
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

/// Resets the workspace, as the real call does.
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  const Entry entry;
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (check_stream(stream, "cublasSetStream") != cudaSuccess) return CUBLAS_STATUS_INVALID_VALUE;
  handle->stream = stream;
  handle->workspace = nullptr;
  handle->workspace_bytes = 0;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, size_t bytes) {
  const Entry entry;
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (reinterpret_cast<uintptr_t>(workspace) % 256 != 0) return CUBLAS_STATUS_INVALID_VALUE;
  const Allocation* allocation = find_allocation(workspace);
  if (allocation == nullptr || allocation->device != handle->device || allocation->bytes < bytes)
    fail("cublasSetWorkspace: %p is not %zu bytes of memory of device %d", workspace, bytes, handle->device);
  handle->workspace = workspace;
  handle->workspace_bytes = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  const Entry entry;
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->math_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "unknown cuBLAS status";
  }
}

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the library was not initialized";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "the functionality requested is not supported";
    default:
      return "unknown cuBLAS status";
  }
}

}  // extern "C"
