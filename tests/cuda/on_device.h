// What tests of device code share: a fixture with the context, skipped where there is no GPU, and arrays on the device.
#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "cuda/context.h"
#include "cuda/memory.h"

namespace heddle::cuda {

class OnDevice : public testing::Test {
 protected:
  void SetUp() override {
    const VisibleDevices visible = visible_devices();
    if (visible.count == 0) GTEST_SKIP() << visible.why_none;
    if (!has_context()) create_context({.cublas_workspace_bytes = 1 << 20});
  }
  void TearDown() override { destroy_context(); }
};

/// Values of the host on the device, freed at the end of the scope. The type is one that bytes say all about.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    copy_to_device(data_, values.data(), count_ * sizeof(T));
  }
  /// Uninitialised.
  explicit DeviceArray(size_t count) : count_(count), data_(static_cast<T*>(device_malloc(count * sizeof(T)))) {}
  ~DeviceArray() { device_free(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() { return data_; }
  size_t size() const { return count_; }

  /// Waits for the compute stream.
  std::vector<T> values() const {
    std::vector<T> on_host(count_);
    copy_to_host(on_host.data(), data_, count_ * sizeof(T));
    context().synchronize_compute();
    return on_host;
  }

 private:
  size_t count_;
  T* data_;
};

}  // namespace heddle::cuda
