// How the emulated machine behaves: read once from environment variables (docs/cuda_kernels.md lists them).
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuda_emulation {

/// When work on a stream is done: at once, only where the host waits for it, or at random points in between.
enum class StreamOrder { kEager, kLazy, kRandom };

struct Options {
  uint64_t seed;             ///< CUDA_EMULATION_SEED: order of threads, blocks and streams
  bool shuffle;              ///< CUDA_EMULATION_SHUFFLE=0: threads and blocks in a fixed order
  StreamOrder stream_order;  ///< CUDA_EMULATION_STREAMS=eager|lazy|random
  bool protect;              ///< CUDA_EMULATION_PROTECT=0: the host may touch device memory unseen
  int devices;               ///< CUDA_EMULATION_DEVICES: GPUs of the machine
  size_t device_bytes;       ///< CUDA_EMULATION_DEVICE_MB: memory of each
  int nccl_seconds;          ///< CUDA_EMULATION_NCCL_SECONDS: patience of a rank that waits for others
  bool driver;               ///< CUDA_EMULATION_DRIVER=none: no driver is installed
};

const Options& options();

}  // namespace cuda_emulation
