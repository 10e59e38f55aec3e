// Refused: shared memory is declared with SHARED_ARRAY, which the emulation can find.
#include "cuda/device.cuh"

__global__ void kernel(float* out) {
  __shared__ float values[32];
  values[threadIdx.x] = 1.0f;
  out[threadIdx.x] = values[threadIdx.x];
}
