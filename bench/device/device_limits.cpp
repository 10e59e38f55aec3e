#include "bench/device/device_limits.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "tensor/tensor.h"
#ifdef HEDDLE_WITH_CUDA
#include "cuda/context.h"
#include "cuda/error.h"
#endif

namespace heddle::bench {

namespace {

#ifdef HEDDLE_WITH_CUDA
/// Operations of dense products per clock and multiprocessor (NVIDIA's data sheets and tuning guides): 2 for each
/// multiply-add unit of float32, and of the tensor cores for bfloat16.
struct Units {
  int major, minor;
  double float32, bfloat16;
};
constexpr Units kUnits[] = {{8, 0, 128, 2048}, {9, 0, 256, 4096}};

int attribute(cudaDeviceAttr which) {
  int value = 0;
  cuda::check(cudaDeviceGetAttribute(&value, which, cuda::context().device()), "cudaDeviceGetAttribute");
  return value;
}

int version(cudaError_t (*ask)(int*), const char* call) {
  int value = 0;
  cuda::check(ask(&value), call);
  return value;
}

void add_gpu(DeviceLimits& limits) {
  const cuda::DeviceProperties& found = cuda::context().properties();
  const double clock = 1e3 * attribute(cudaDevAttrClockRate);
  const double memory_clock = 1e3 * attribute(cudaDevAttrMemoryClockRate);
  const int bus_bits = attribute(cudaDevAttrGlobalMemoryBusWidth);
  limits.cache_bytes = attribute(cudaDevAttrL2CacheSize);
  limits.peak.bytes_per_second = 2 * memory_clock * bus_bits / 8;  // two transfers a clock
  for (const Units& units : kUnits)
    if (units.major == found.major && units.minor == found.minor)
      limits.peak.flops_per_second = {units.float32 * clock * found.multiprocessors,
                                      units.bfloat16 * clock * found.multiprocessors};
  limits.facts.update({{"name", found.name},
                       {"compute_capability", fmt::format("{}.{}", found.major, found.minor)},
                       {"multiprocessors", found.multiprocessors},
                       {"clock_hz", clock},
                       {"memory_clock_hz", memory_clock},
                       {"memory_bus_bits", bus_bits},
                       {"memory_bytes", found.memory_bytes},
                       {"cuda_of_driver", version(cudaDriverGetVersion, "cudaDriverGetVersion")},
                       {"cuda_of_runtime", version(cudaRuntimeGetVersion, "cudaRuntimeGetVersion")}});
}
#endif

Tensor zeros(int64_t count, RealType type) {
  return Tensor::zeros({count}, Purpose::kWorkspace, type == RealType::kFloat32 ? DType::kFloat32 : DType::kBfloat16);
}

double measured_copy(const Device& device, DeviceClock& clock, int64_t cache_bytes) {
  const int64_t count = 4 * cache_bytes / 4;  // four times what the cache holds
  const Tensor from = zeros(count, RealType::kFloat32), to = zeros(count, RealType::kFloat32);
  const double seconds = median_seconds(clock, 10, [&] { device.kernels->scale(count, 1, from.reals(), to.reals()); });
  return 8.0 * static_cast<double>(count) / seconds;
}

double measured_product(const Device& device, DeviceClock& clock, int64_t n, RealType type) {
  // Not zeros: a GPU multiplies them faster than it does numbers.
  const Tensor pattern = zeros(n * n, RealType::kFloat32);
  std::vector<float> values(static_cast<size_t>(n * n));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 2654435761U) % 1024) / 512 - 1;
  pattern.set<float>(values);
  const Tensor a = zeros(n * n, type), c = zeros(n * n, type);
  device.kernels->scale(n * n, 1, pattern.reals(), a.reals());
  const double seconds = median_seconds(clock, 10, [&] {
    device.kernels->matmul(Transpose::kNo, Transpose::kYes, n, n, n, 1, a.reals(), n, a.reals(), n, 0, c.reals(), n);
  });
  const auto size = static_cast<double>(n);
  return 2 * size * size * size / seconds;
}

nlohmann::json to_json(const Speed& speed) {
  const auto known = [](double value) { return value > 0 ? nlohmann::json(value) : nlohmann::json(nullptr); };
  return {{"bytes_per_second", known(speed.bytes_per_second)},
          {"float32_flops_per_second", known(speed.flops_per_second[0])},
          {"bfloat16_flops_per_second", known(speed.flops_per_second[1])}};
}

}  // namespace

double median_seconds(DeviceClock& clock, int64_t repetitions, const std::function<void()>& work,
                      const std::function<void()>& before) {
  const int64_t least = std::min<int64_t>(3, repetitions);
  constexpr double kMostSeconds = 0.5;
  work();
  clock.wait();
  std::vector<double> times;
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  for (int64_t i = 0; i < least || (i < repetitions && elapsed() < kMostSeconds); ++i) {
    if (before) before();
    times.push_back(clock.seconds(work));
  }
  std::nth_element(times.begin(), times.begin() + static_cast<int64_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

DeviceLimits device_limits(const Device& device, DeviceClock& clock, int64_t product_size) {
  DeviceLimits limits;
  limits.facts = {{"device", device.name}, {"description", device.description}};
  const bool gpu = device.name == "cuda";
#ifdef HEDDLE_WITH_CUDA
  if (gpu) add_gpu(limits);
#endif
  // Some machines do not say how large their cache is, and virtual ones that it is all of a large server's.
  if (!gpu)
    limits.cache_bytes = std::clamp<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE), int64_t{1} << 20, int64_t{8} << 20);
  limits.measured.bytes_per_second = measured_copy(device, clock, limits.cache_bytes);
  limits.measured.flops_per_second[0] = measured_product(device, clock, product_size, RealType::kFloat32);
  if (gpu) limits.measured.flops_per_second[1] = measured_product(device, clock, product_size, RealType::kBfloat16);
  Allocator::current().release_cache();
  return limits;
}

int64_t device_bytes_in_use(const Device& device) {
#ifdef HEDDLE_WITH_CUDA
  if (device.name == "cuda") {
    size_t free = 0, total = 0;
    cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return static_cast<int64_t>(total - free);
  }
#endif
  static_cast<void>(device);
  return 0;
}

nlohmann::json to_json(const DeviceLimits& limits) {
  nlohmann::json all = limits.facts;
  all["cache_bytes"] = limits.cache_bytes;
  all["peak"] = to_json(limits.peak);
  all["measured"] = to_json(limits.measured);
  return all;
}

}  // namespace heddle::bench
