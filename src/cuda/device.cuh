// What a .cu file includes to write kernels, and the only header it may take device code from (docs/cuda_kernels.md).
// The same source is compiled by nvcc for GPUs, and by g++ for the emulation that tests run on the processor; where the
// two need different words, these headers hide it.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#ifndef __CUDACC__
#include <cuda_emulation/device.h>
#endif

#include "cuda/async_copy.cuh"
#include "cuda/launch.cuh"
#include "cuda/numbers.cuh"
#include "cuda/reductions.cuh"
#include "cuda/shared_memory.cuh"
#include "cuda/tensor_core.cuh"
