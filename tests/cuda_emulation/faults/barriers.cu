// Barriers that not all threads of a block reach together.
#include "cuda/device.cuh"
#include "cuda_emulation/faults/fault.h"

namespace heddle::cuda {

namespace {

__global__ void two_barriers_kernel(float* out, bool faulty) {
  if (faulty) {
    if (threadIdx.x < 64) {
      __syncthreads();
    } else {
      __syncthreads();
    }
  } else {
    __syncthreads();
  }
  out[threadIdx.x] = 1.0f;
}

void two_barriers(bool faulty) {
  launch(two_barriers_kernel, {1, 128}, compute_stream(), device_values(std::vector<float>(128)), faulty);
}

__global__ void early_return_kernel(float* out, unsigned count, bool faulty) {
  if (faulty && threadIdx.x >= count) return;
  __syncthreads();
  if (threadIdx.x < count) out[threadIdx.x] = 1.0f;
}

void early_return(bool faulty) {
  launch(early_return_kernel, {1, 128}, compute_stream(), device_values(std::vector<float>(100)), 100u, faulty);
}

__global__ void barrier_against_shuffle_kernel(float* out, bool faulty) {
  float value = static_cast<float>(threadIdx.x);
  if (!faulty || warp_index() == 0) __syncthreads();
  if (faulty && warp_index() == 1 && lane_index() > 0) __syncthreads();
  value = warp_sum(value);
  out[threadIdx.x] = value;
}

void barrier_against_shuffle(bool faulty) {
  launch(barrier_against_shuffle_kernel, {1, 64}, compute_stream(), device_values(std::vector<float>(64)), faulty);
}

}  // namespace

std::vector<Fault> barrier_faults() {
  const char* divergent = "divergent barrier: ";
  const char* deadlock = "deadlock: 63 threads wait at __syncthreads";
  return {
      {"two_barriers", "threads of a block wait at different barriers", divergent, divergent, divergent, two_barriers},
      {"early_return", "a thread returns before a barrier", divergent, divergent, divergent, early_return},
      {"barrier_against_shuffle", "a lane is in a shuffle while its warp waits at a barrier", deadlock, deadlock,
       deadlock, barrier_against_shuffle},
  };
}

}  // namespace heddle::cuda
