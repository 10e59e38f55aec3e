// Refused: launch() checks what brackets do not.
#include "cuda/device.cuh"

__global__ void kernel() {}

void start(cudaStream_t stream) {
  kernel<<<1, 32, 0, stream>>>();
}
