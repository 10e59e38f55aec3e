// Shared memory that is too small, not there, or not written.
#include "cuda/device.cuh"
#include "cuda_emulation/faults/fault.h"

namespace heddle::cuda {

namespace {

__global__ void dynamic_overrun_kernel(float* out, bool faulty) {
  DYNAMIC_SHARED(float, values);
  values[threadIdx.x + (faulty ? 1 : 0)] = 1.0f;
  __syncthreads();
  out[threadIdx.x] = values[threadIdx.x];
}

void dynamic_overrun(bool faulty) {
  launch(dynamic_overrun_kernel, {1, 128, 128 * sizeof(float)}, compute_stream(),
         device_values(std::vector<float>(128)), faulty);
}

__global__ void static_overrun_kernel(float* out, bool faulty) {
  SHARED_ARRAY(float, values, 64);
  float* const first = values;
  if (faulty || threadIdx.x < 64) first[threadIdx.x] = 1.0f;
  __syncthreads();
  out[threadIdx.x] = first[threadIdx.x % 64];
}

void static_overrun(bool faulty) {
  launch(static_overrun_kernel, {1, 96}, compute_stream(), device_values(std::vector<float>(96)), faulty);
}

__global__ void uninitialised_kernel(float* out, bool faulty) {
  SHARED_ARRAY(float, values, 128);
  if (!faulty || threadIdx.x < 100) values[threadIdx.x] = 0.0f;
  __syncthreads();
  out[threadIdx.x] = values[threadIdx.x] + 1.0f;
}

void uninitialised(bool faulty) {
  float* const out = device_values(std::vector<float>(128));
  launch(uninitialised_kernel, {1, 128}, compute_stream(), out, faulty);
  expect_values(host_values(out, 128), std::vector<float>(128, 1.0f));
}

__global__ void static_array_of_48k_kernel(float* out) {
  SHARED_ARRAY(float, values, 12 * 1024);
  values[threadIdx.x] = 1.0f;
  out[threadIdx.x] = values[threadIdx.x];
}

__global__ void static_arrays_of_49k_kernel(float* out) {
  SHARED_ARRAY(float, values, 12 * 1024);
  SHARED_ARRAY(float, more, 256);
  values[threadIdx.x] = 1.0f;
  more[threadIdx.x] = 1.0f;
  out[threadIdx.x] = values[threadIdx.x] + more[threadIdx.x];
}

void too_much_static(bool faulty) {
  launch(faulty ? static_arrays_of_49k_kernel : static_array_of_48k_kernel, {1, 128}, compute_stream(),
         device_values(std::vector<float>(128)));
}

__global__ void async_copy_kernel(const float* in, float* out, bool waits_early, bool waits_late) {
  SHARED_ARRAY(float, values, 128);
  copy_async<16>(values + 4 * threadIdx.x, in + 4 * threadIdx.x);
  copy_async_commit();
  if (waits_early) copy_async_wait<0>();
  __syncthreads();
  for (unsigned i = threadIdx.x; i < 128; i += 32) out[i] = values[127 - i];
  if (waits_late) copy_async_wait<0>();
}

void early_async_read(bool faulty) {
  float* const out = device_values(std::vector<float>(128));
  launch(async_copy_kernel, {1, 32}, compute_stream(), device_values(std::vector<float>(128, 1.0f)), out, !faulty,
         true);
  expect_values(host_values(out, 128), std::vector<float>(128, 1.0f));
}

void abandoned_async_copy(bool faulty) {
  launch(async_copy_kernel, {1, 32}, compute_stream(), device_values(std::vector<float>(128)),
         device_values(std::vector<float>(128)), !faulty, !faulty);
}

__global__ void async_overwrite_kernel(const float* in, float* out, bool faulty) {
  SHARED_ARRAY(float, values, 128);
  values[threadIdx.x] = 1.0f;
  __syncthreads();
  out[threadIdx.x] = values[127 - threadIdx.x];
  if (!faulty) __syncthreads();
  copy_async<4>(values + threadIdx.x, in + threadIdx.x);
  copy_async_commit();
  copy_async_wait<0>();
}

void async_overwrite(bool faulty) {
  float* const out = device_values(std::vector<float>(128));
  launch(async_overwrite_kernel, {1, 128}, compute_stream(), device_values(std::vector<float>(128, 1.0f)), out, faulty);
  expect_values(host_values(out, 128), std::vector<float>(128, 1.0f));
}

void no_dynamic(bool faulty) {
  launch(dynamic_overrun_kernel, {1, 128, faulty ? 0 : 128 * sizeof(float)}, compute_stream(),
         device_values(std::vector<float>(128)), false);
}

}  // namespace

std::vector<Fault> shared_memory_faults() {
  const char* behind = "behind the end of the shared array of";
  const char* poisoned = "use-after-poison";
  const char* wrong = "wrong value: NaN";
  const char* too_much = "50176 bytes of static shared memory";
  const char* race = "ThreadSanitizer: data race";
  const char* abandoned = "a thread ended without waiting for the asynchronous copy";
  const char* none = "DYNAMIC_SHARED in a kernel that was launched with 0 bytes";
  return {
      {"dynamic_overrun", "a write behind dynamic shared memory", behind, poisoned, behind, dynamic_overrun},
      {"static_overrun", "a write behind a static shared array", behind, poisoned, behind, static_overrun},
      {"uninitialised", "shared memory is read before it is written", wrong, wrong, wrong, uninitialised},
      {"too_much_static", "more than 48 KiB of static shared memory", too_much, too_much, too_much, too_much_static},
      {"early_async_read", "what an asynchronous copy brings is read before the wait", wrong, wrong, race,
       early_async_read},
      {"abandoned_async_copy", "a thread ends before its asynchronous copies", abandoned, abandoned, abandoned,
       abandoned_async_copy},
      {"async_overwrite", "an asynchronous copy onto what others still read", nullptr, nullptr, race, async_overwrite},
      {"no_dynamic", "dynamic shared memory that the launch did not ask for", none, none, none, no_dynamic},
  };
}

}  // namespace heddle::cuda
