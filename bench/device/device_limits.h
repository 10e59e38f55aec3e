// What a device can do at best: by its data, and measured by a copy and by square matrix products. Times of kernels and
// training steps are held against both.
#pragma once

#include <array>
#include <functional>
#include <nlohmann/json.hpp>

#include "bench/device/device_clock.h"

namespace heddle::bench {

/// 0 where it is not known: a CPU's data, and products of GPUs that the table in device_limits.cpp lacks.
struct Speed {
  double bytes_per_second = 0;               ///< of memory, reads and writes together
  std::array<double, 2> flops_per_second{};  ///< of products, by RealType of the factors
};

struct DeviceLimits {
  nlohmann::json facts;     ///< name, and of a GPU capability, clocks, driver, ...
  int64_t cache_bytes = 0;  ///< of the last cache
  Speed peak;               ///< by clocks, widths and units
  Speed measured;           ///< the best of some copies, and of some products
};

/// `product_size`: rows and columns of the factors. Products of bfloat16 on a GPU only.
DeviceLimits device_limits(const Device& device, DeviceClock& clock, int64_t product_size);
nlohmann::json to_json(const DeviceLimits& limits);

/// Bytes of the device's memory that are in use, those of libraries included; 0 on a CPU.
int64_t device_bytes_in_use(const Device& device);

/// Median of the seconds of calls of `work`: `repetitions`, after half a second no more than 3, and one before.
/// `before` runs before each, outside of the time.
double median_seconds(DeviceClock& clock, int64_t repetitions, const std::function<void()>& work,
                      const std::function<void()>& before = {});

}  // namespace heddle::bench
