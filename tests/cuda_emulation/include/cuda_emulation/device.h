// The words of CUDA's device code, for g++: what a kernel may use beside C++ and NVIDIA's host headers. Each thread of
// a block is a fiber of one host thread (runtime/thread_block.h). These headers are compiled with the kernels, and so
// with their sanitizer; the runtime behind them is compiled without.
#pragma once

#include <cuda_runtime.h>

#include <source_location>

#ifndef __launch_bounds__
#define __launch_bounds__(...)
#endif

#include <cuda_emulation/arithmetic.h>
#include <cuda_emulation/async_copy.h>
#include <cuda_emulation/atomics.h>
#include <cuda_emulation/barriers.h>
#include <cuda_emulation/launch.h>
#include <cuda_emulation/shared_memory.h>
#include <cuda_emulation/tensor_core.h>
#include <cuda_emulation/thread_index.h>
#include <cuda_emulation/warp.h>

// Words that nvcc takes and kernels here must not use (docs/cuda_kernels.md). From now on they are errors.
#undef __shared__
#undef __constant__
#undef __managed__
#pragma GCC poison __shared__ __constant__ __managed__ __activemask cooperative_groups
