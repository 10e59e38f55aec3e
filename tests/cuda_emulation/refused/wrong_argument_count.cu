// Refused: a kernel gets exactly the arguments that it names.
#include "cuda/device.cuh"

__global__ void kernel(float* out, int count) {
  out[0] = static_cast<float>(count);
}

void start(cudaStream_t stream, float* out) {
  heddle::cuda::launch(kernel, {1, 32}, stream, out);
}
