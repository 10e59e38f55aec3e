// Refused: which lanes run together is nothing that a kernel may build on.
#include "cuda/device.cuh"

__global__ void kernel(unsigned* out) {
  out[threadIdx.x] = __activemask();
}
