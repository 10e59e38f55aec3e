// Time of a device's work. Calls to a GPU return before their work is done, so its time is taken by events of the
// compute stream; a CPU's by the steady clock.
#pragma once

#include <functional>

#include "device/device.h"

namespace heddle::bench {

class DeviceClock {
 public:
  /// The device stays open as long as the clock lives.
  explicit DeviceClock(const Device& device);
  ~DeviceClock();
  DeviceClock(const DeviceClock&) = delete;
  DeviceClock& operator=(const DeviceClock&) = delete;

  /// Seconds from the end of all earlier work to the end of `work`, for which the host waits. Host time that does not
  /// keep the device waiting is not in it.
  double seconds(const std::function<void()>& work);
  /// The host waits for the end of all work.
  void wait();

 private:
  bool gpu_;
  void* begin_ = nullptr;  ///< events; null on a CPU
  void* end_ = nullptr;
};

}  // namespace heddle::bench
