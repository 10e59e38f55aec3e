// Refused: CUDA has no such operation.
#include "cuda/device.cuh"

__global__ void kernel(float* out) {
  atomicMax(out, 1.0f);
}
