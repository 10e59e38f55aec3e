// Limits of the emulated GPU. It has the generous ones of Hopper, so that kernels for it can run; tests of smaller GPUs
// look at cudaDeviceGetAttribute.
#pragma once

#include <cstddef>

namespace cuda_emulation {

constexpr int kMajor = 9, kMinor = 0;  ///< compute capability
constexpr int kMultiprocessors = 4;    ///< few, so that loops over blocks are exercised by small inputs
constexpr int kWarpSize = 32;
constexpr unsigned kMostThreadsPerBlock = 1024;
constexpr unsigned kMostBlockDepth = 64;  ///< blockDim.z
constexpr unsigned kMostBlocksX = 0x7fffffff;
constexpr unsigned kMostBlocksYZ = 65535;
// No speed is emulated; benchmarks that ask get round numbers.
constexpr int kClockKilohertz = 1000;
constexpr int kMemoryBusBits = 64;
constexpr int kCacheBytes = 64 << 10;           ///< small, so that what is measured beyond the cache is small too
constexpr size_t kSharedBytes = 48 << 10;       ///< static, or dynamic without cudaFuncSetAttribute
constexpr size_t kMostSharedBytes = 227 << 10;  ///< of one block, static and dynamic together

}  // namespace cuda_emulation
