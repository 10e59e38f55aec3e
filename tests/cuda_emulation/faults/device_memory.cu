// Device memory that is too small, freed, misaligned, or touched by the host.
#include "cuda/device.cuh"
#include "cuda_emulation/faults/fault.h"

namespace heddle::cuda {

namespace {

__global__ void write_kernel(float* out, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) out[i] = 1.0f;
}

__global__ void copy_kernel(const float* in, float* out, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) out[i] = in[i];
}

void write_overrun(bool faulty) {
  launch(write_kernel, {4, 32}, compute_stream(), device_values(std::vector<float>(100)), faulty ? 101 : 100);
}

void read_overrun(bool faulty) {
  float* const out = device_values(std::vector<float>(128));
  launch(copy_kernel, {4, 32}, compute_stream(), device_values(std::vector<float>(100)), out, faulty ? 101 : 100);
}

/// The launch is checked; what a structure holds is not seen there.
struct Matrix {
  float* data;
  int rows, columns;
};

__global__ void fill_kernel(Matrix matrix) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < matrix.rows * matrix.columns) matrix.data[i] = 1.0f;
}

void freed_memory(bool faulty) {
  float* const data = device_values(std::vector<float>(64));
  if (faulty) device_free(data);
  launch(fill_kernel, {2, 32}, compute_stream(), Matrix{data, 8, 8});
}

void freed_argument(bool faulty) {
  float* const data = device_values(std::vector<float>(64));
  if (faulty) device_free(data);
  launch(write_kernel, {2, 32}, compute_stream(), data, 64);
}

void host_argument(bool faulty) {
  std::vector<float> on_host(64);
  launch(write_kernel, {2, 32}, compute_stream(), faulty ? on_host.data() : device_values(on_host), 64);
}

__global__ void packs_kernel(const float* in, float* out) {
  store_pack(out + 4 * threadIdx.x, load_pack(in + 4 * threadIdx.x));
}

void misaligned_pack(bool faulty) {
  float* const in = device_values(std::vector<float>(160));
  launch(packs_kernel, {1, 32}, compute_stream(), in + (faulty ? 1 : 0), device_values(std::vector<float>(128)));
}

void host_touches_device(bool faulty) {
  const float* const on_device = device_values({1.0f, 2.0f});
  const float value = faulty ? on_device[1] : host_values(on_device, 2)[1];
  expect_values({value}, {2.0f});
}

/// Calls itself `depth` times; the addition afterwards keeps the compiler from making a loop of it.
__device__ int call_itself(int depth, volatile int* ends) {
  volatile int local[256];
  local[depth % 256] = depth;
  if (depth == 0 || *ends != 0) return local[0];
  return call_itself(depth - 1, ends) + local[depth % 256];
}

__global__ void recursion_kernel(int* zero, int depth) {
  if (threadIdx.x == 0) *zero = call_itself(depth, zero);
}

void endless_recursion(bool faulty) {
  auto* const zero = static_cast<int*>(device_malloc(sizeof(int)));
  fill_bytes(zero, 0, sizeof(int));
  launch(recursion_kernel, {1, 32}, compute_stream(), zero, faulty ? 1000000 : 5);
}

void uninitialised_memory(bool faulty) {
  auto* const in = static_cast<float*>(device_malloc(64 * sizeof(float)));
  float* const out = device_values(std::vector<float>(64));
  if (!faulty) fill_bytes(in, 0, 64 * sizeof(float));
  launch(copy_kernel, {2, 32}, compute_stream(), in, out, 64);
  expect_values(host_values(out, 64), std::vector<float>(64));
}

}  // namespace

std::vector<Fault> device_memory_faults() {
  const char* red_zone = "bytes behind the end of an allocation of 400 bytes";
  const char* poisoned = "use-after-poison";
  const char* neither = "is neither device memory nor pinned host memory";
  const char* host = "the host touched device memory: byte 4 of an allocation of 8 bytes";
  const char* wrong = "wrong value: NaN";
  const char* stack = "a kernel thread used up its stack";
  const char* misaligned = "which requires 16 byte alignment";
  return {
      {"write_overrun", "a write behind an allocation", red_zone, poisoned, red_zone, write_overrun},
      {"read_overrun", "a read behind an allocation", nullptr, poisoned, nullptr, read_overrun},
      {"freed_memory", "a kernel uses freed memory", nullptr, poisoned, nullptr, freed_memory},
      {"freed_argument", "a kernel is given freed memory", neither, neither, neither, freed_argument},
      {"host_argument", "a kernel is given host memory that is not pinned", neither, neither, neither, host_argument},
      {"misaligned_pack", "a 16-byte access at another address", nullptr, misaligned, nullptr, misaligned_pack},
      {"host_touches_device", "the host reads or writes device memory", host, host, host, host_touches_device},
      {"endless_recursion", "a kernel thread uses up its stack", stack, stack, stack, endless_recursion},
      {"uninitialised_memory", "device memory is read before it is written", wrong, wrong, wrong, uninitialised_memory},
  };
}

}  // namespace heddle::cuda
