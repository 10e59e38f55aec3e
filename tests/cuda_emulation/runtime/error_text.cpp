// Names and texts of the statuses that the emulation returns, as the CUDA runtime has them.
#include <cuda_runtime.h>

namespace {

struct ErrorText {
  cudaError_t status;
  const char* name;
  const char* text;
};

constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
};

const ErrorText* find(cudaError_t status) {
  for (const ErrorText& error : kErrors)
    if (error.status == status) return &error;
  return nullptr;
}

}  // namespace

extern "C" {

const char* cudaGetErrorName(cudaError_t status) {
  const ErrorText* error = find(status);
  return error != nullptr ? error->name : "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t status) {
  const ErrorText* error = find(status);
  return error != nullptr ? error->text : "unrecognized error code";
}

}  // extern "C"
