// The GPUs of the emulated machine, as CUDA_VISIBLE_DEVICES shows them to this process.
#pragma once

#include <cuda_runtime.h>

#include <vector>

namespace cuda_emulation {

/// cudaSuccess, or why there is no device at all: no driver, or none visible.
cudaError_t driver_status();

/// Numbers in the machine of the visible devices, in the order in which this process sees them.
const std::vector<int>& visible_devices();

/// The calling thread's device, as an index into visible_devices(). Call only if driver_status() is cudaSuccess.
int current_device();

}  // namespace cuda_emulation
