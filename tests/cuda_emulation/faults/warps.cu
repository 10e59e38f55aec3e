// Masks that do not name the lanes that call.
#include "cuda/device.cuh"
#include "cuda_emulation/faults/fault.h"

namespace heddle::cuda {

namespace {

__global__ void read_outside_of_mask_kernel(float* out, bool faulty) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(0xffffu, 1.0f, faulty ? 20 : 5);
}

void read_outside_of_mask(bool faulty) {
  launch(read_outside_of_mask_kernel, {1, 32}, compute_stream(), device_values(std::vector<float>(32)), faulty);
}

__global__ void caller_outside_of_mask_kernel(float* out, bool faulty) {
  if (faulty || threadIdx.x < 16) out[threadIdx.x] = __shfl_xor_sync(0xffffu, 1.0f, 1);
}

void caller_outside_of_mask(bool faulty) {
  launch(caller_outside_of_mask_kernel, {1, 32}, compute_stream(), device_values(std::vector<float>(32)), faulty);
}

__global__ void full_mask_in_branch_kernel(float* out, bool faulty) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_xor_sync(faulty ? kFullWarp : 0xffffu, 1.0f, 1);
}

void full_mask_in_branch(bool faulty) {
  launch(full_mask_in_branch_kernel, {1, 32}, compute_stream(), device_values(std::vector<float>(32)), faulty);
}

__global__ void two_shuffles_kernel(float* out, bool faulty) {
  float value = 1.0f;
  if (faulty && threadIdx.x < 16) {
    value = __shfl_xor_sync(kFullWarp, value, 1);
  } else {
    value = __shfl_xor_sync(kFullWarp, value, 1);
  }
  out[threadIdx.x] = value;
}

void two_shuffles(bool faulty) {
  launch(two_shuffles_kernel, {1, 32}, compute_stream(), device_values(std::vector<float>(32)), faulty);
}

__global__ void overlapping_masks_kernel(float* out, bool faulty) {
  const unsigned mask = threadIdx.x < 16 ? (faulty ? 0x1ffffu : 0xffffu) : 0xffff0000u;
  out[threadIdx.x] = static_cast<float>(__ballot_sync(mask, 1));
}

void overlapping_masks(bool faulty) {
  launch(overlapping_masks_kernel, {1, 32}, compute_stream(), device_values(std::vector<float>(32)), faulty);
}

}  // namespace

std::vector<Fault> warp_faults() {
  const char* reads = "reads lane 20, which is not in the mask 0000ffff";
  const char* calls = "calls it and is not in the mask 0000ffff";
  const char* ended = "the mask ffffffff";
  const char* divergent = "divergent warp operation: lanes";
  const char* overlap = "masks that overlap: ";
  return {
      {"read_outside_of_mask", "a shuffle reads a lane that the mask does not name", reads, reads, reads,
       read_outside_of_mask},
      {"caller_outside_of_mask", "a lane calls a warp operation whose mask does not name it", calls, calls, calls,
       caller_outside_of_mask},
      {"full_mask_in_branch", "a mask names lanes that do not come", ended, ended, ended, full_mask_in_branch},
      {"two_shuffles", "lanes of one mask are at different operations", divergent, divergent, divergent, two_shuffles},
      {"overlapping_masks", "masks of one warp overlap and differ", overlap, overlap, overlap, overlapping_masks},
  };
}

}  // namespace heddle::cuda
