// Launches that the device refuses, and those that the rules of this code base do.
#include "cuda/device.cuh"
#include "cuda_emulation/faults/fault.h"

namespace heddle::cuda {

namespace {

__global__ void nothing_kernel() {}

__global__ void dynamic_kernel(float* out) {
  DYNAMIC_SHARED(float, values);
  values[threadIdx.x] = 1.0f;
  out[threadIdx.x] = values[threadIdx.x];
}

__global__ void write_one_kernel(float* out) {
  out[0] = 1.0f;
}

void no_blocks(bool faulty) {
  launch(nothing_kernel, {block_count(faulty ? 0 : 1, 32), 32}, compute_stream());
}

void too_many_threads(bool faulty) {
  launch(nothing_kernel, {1, faulty ? 1056u : 1024u}, compute_stream());
}

void too_many_rows(bool faulty) {
  launch(nothing_kernel, {dim3(1, faulty ? 65536 : 3), 32}, compute_stream());
}

void too_much_dynamic(bool faulty) {
  if (!faulty) allow_dynamic_shared(dynamic_kernel, 64 << 10);
  launch(dynamic_kernel, {1, 32, 64 << 10}, compute_stream(), device_values(std::vector<float>(32)));
}

void broken_warp(bool faulty) {
  launch(nothing_kernel, {1, faulty ? 100u : 96u}, compute_stream());
}

void default_stream(bool faulty) {
  launch(nothing_kernel, {1, 32}, faulty ? nullptr : compute_stream());
}

void other_device(bool faulty) {
  float* const memory = device_values({0.0f});
  cudaStream_t stream = compute_stream();
  if (faulty) {
    check(cudaSetDevice(1), "cudaSetDevice");
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  launch(write_one_kernel, {1, 32}, stream, memory);
}

}  // namespace

std::vector<Fault> launch_faults() {
  const char* shape = "invalid configuration argument (cudaErrorInvalidConfiguration)";
  const char* invalid = "invalid argument (cudaErrorInvalidValue)";
  const char* warps = "whole warps are the rule here";
  const char* stream = "a launch on the default stream: name a stream";
  const char* device = "is memory of device 0, and the stream belongs to device 1";
  return {
      {"no_blocks", "a grid of zero blocks", shape, shape, shape, no_blocks},
      {"too_many_threads", "a block of more than 1024 threads", shape, shape, shape, too_many_threads},
      {"too_many_rows", "a grid that is higher than 65535", shape, shape, shape, too_many_rows},
      {"too_much_dynamic", "more than 48 KiB of dynamic shared memory without leave", invalid, invalid, invalid,
       too_much_dynamic},
      {"broken_warp", "a block that is not whole warps", warps, warps, warps, broken_warp},
      {"default_stream", "a launch on the default stream", stream, stream, stream, default_stream},
      {"other_device", "memory of another device", device, device, device, other_device},
  };
}

}  // namespace heddle::cuda
