// Texts of NCCL's results, and the details of the last one.
#include "nccl/status.h"

#include <cstdarg>
#include <cstdio>

namespace cuda_emulation {

namespace {

char last_details[512] = "";

}  // namespace

ncclResult_t nccl_error(ncclResult_t result, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(last_details, sizeof(last_details), format, arguments);
  va_end(arguments);
  return result;
}

}  // namespace cuda_emulation

extern "C" {

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) {
  return cuda_emulation::last_details;
}

}  // extern "C"
