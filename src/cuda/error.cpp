#include "cuda/error.h"

#include <fmt/format.h>

#include <string>

#include "cuda/library_error.h"
#include "support/error.h"

namespace heddle::cuda {

namespace {

std::string hint_for(cudaError_t status) {
  switch (status) {
    case cudaErrorInsufficientDriver:
      return "there is no NVIDIA driver, or it is older than the CUDA toolkit of this build: nvidia-smi shows both";
    case cudaErrorNoDevice:
      return "no GPU is visible: look at nvidia-smi and at CUDA_VISIBLE_DEVICES";
    case cudaErrorNoKernelImageForDevice:
      return "this build has no code for this GPU: configure with -DCMAKE_CUDA_ARCHITECTURES=<its compute capability>";
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
      return "a kernel before this call failed: CUDA_LAUNCH_BLOCKING=1 shows which, and so do the emulated tests";
    default:
      return "";
  }
}

}  // namespace

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  throw Error(fmt::format("{}: {} ({})", call, cudaGetErrorString(status), cudaGetErrorName(status)), hint_for(status));
}

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(fmt::format("{}: {} ({})", call, cublasGetStatusString(status), cublasGetStatusName(status)));
}

void check(ncclResult_t status, const char* call) {
  if (status == ncclSuccess) return;
  const char* details = ncclGetLastError(nullptr);
  throw Error(fmt::format("{}: {}{}{}", call, ncclGetErrorString(status), *details == '\0' ? "" : ": ", details),
              "NCCL_DEBUG=WARN makes NCCL say more");
}

}  // namespace heddle::cuda
