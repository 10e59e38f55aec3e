// Work on streams, and of the host, that no event and no wait orders; and copies that are too long.
#include "cuda/device.cuh"
#include "cuda_emulation/faults/fault.h"

namespace heddle::cuda {

namespace {

__global__ void add_kernel(float* values, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) values[i] += 1.0f;
}

void missing_event(bool faulty) {
  float* const values = device_values(std::vector<float>(1000));
  context().communication_waits_for_compute();
  launch(add_kernel, {block_count(1000, 128), 128}, compute_stream(), values, 1000);
  if (!faulty) context().communication_waits_for_compute();
  launch(add_kernel, {block_count(1000, 128), 128}, communication_stream(), values, 1000);
}

void early_read(bool faulty) {
  const float* const values = device_values(std::vector<float>(100, 2.0f));
  auto* const pinned = static_cast<float*>(pinned_malloc(100 * sizeof(float)));
  for (int i = 0; i < 100; ++i) pinned[i] = 0.0f;
  copy_to_host(pinned, values, 100 * sizeof(float));
  if (!faulty) context().synchronize_compute();
  float sum = 0.0f;
  for (int i = 0; i < 100; ++i) sum += pinned[i];
  context().synchronize_compute();
  if (!faulty) expect_values({sum}, {200.0f});
}

void early_reuse(bool faulty) {
  auto* const pinned = static_cast<float*>(pinned_malloc(100 * sizeof(float)));
  auto* const values = static_cast<float*>(device_malloc(100 * sizeof(float)));
  for (int i = 0; i < 100; ++i) pinned[i] = 1.0f;
  copy_to_device(values, pinned, 100 * sizeof(float));
  if (!faulty) context().synchronize_compute();
  for (int i = 0; i < 100; ++i) pinned[i] = 2.0f;
}

void long_copy(bool faulty) {
  const std::vector<float> values(101);
  auto* const on_device = static_cast<float*>(device_malloc(100 * sizeof(float)));
  copy_to_device(on_device, values.data(), (faulty ? 101 : 100) * sizeof(float));
}

void long_fill(bool faulty) {
  fill_bytes(device_malloc(100), 0, faulty ? 101 : 100);
}

}  // namespace

std::vector<Fault> stream_faults() {
  const char* race = "ThreadSanitizer: data race";
  const char* overrun = "overrun an allocation of 400 bytes";
  const char* fill_overrun = "cudaMemsetAsync: 101 bytes from byte 0 on overrun an allocation of 100 bytes";
  return {
      {"missing_event", "two streams use the same memory without an event", nullptr, nullptr, race, missing_event},
      {"early_read", "the host reads pinned memory before it waits for the copy", nullptr, nullptr, race, early_read},
      {"early_reuse", "the host overwrites pinned memory that is still copied from", nullptr, nullptr, race,
       early_reuse},
      {"long_copy", "a copy that is longer than the allocation", overrun, overrun, overrun, long_copy},
      {"long_fill", "a fill that is longer than the allocation", fill_overrun, fill_overrun, fill_overrun, long_fill},
  };
}

}  // namespace heddle::cuda
