// How kernels are started. No <<<>>>: a launch that fails must throw, and g++ cannot read it.
#pragma once

#include <cuda_runtime.h>

#include "cuda/error.h"
#include "cuda/launch_shape.h"

namespace heddle::cuda {

/// Enqueues a kernel. The arguments are converted and copied now. Throws Error where the launch itself is wrong (no
/// blocks, too many threads, too much shared memory); what goes wrong inside the kernel shows at a later call.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream, Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments), "a kernel gets exactly the arguments that it names");
#ifdef __CUDACC__
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.dynamic_shared_bytes;
  config.stream = stream;
  check_launch(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), shape);
#else
  check_launch(cuda_emulation::launch(kernel, shape.grid, shape.block, shape.dynamic_shared_bytes, stream, shape.file,
                                      shape.line, static_cast<Parameters>(arguments)...),
               shape);
#endif
}

/// Must be called once before a kernel is launched with more than 48 KiB of dynamic shared memory.
template <typename... Parameters>
void allow_dynamic_shared(void (*kernel)(Parameters...), int bytes) {
  check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "cudaFuncSetAttribute(MaxDynamicSharedMemorySize)");
}

}  // namespace heddle::cuda
