// Where a process computes: the operations, the memory of tensors, how activations are stored, and the way to the other
// ranks that goes with them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/job.h"
#include "kernels/kernels.h"
#include "tensor/tensor.h"

namespace heddle {

/// What can be asked for. kAuto: a GPU where the program was built for one and there is one, else the CPU.
inline const std::vector<std::string> kDeviceNames = {"auto", "cpu", "ref", "cuda"};

struct Device {
  std::string name;         ///< "cpu", "ref" or "cuda"
  std::string description;  ///< for people: the GPU's name and memory
  const Kernels* kernels = &cpu::kernels();
  DType activations = DType::kFloat32;
  int64_t room_bytes = 0;  ///< of the GPU for tensors, when it was opened; 0 on a CPU
  /// Bytes of the GPU that are in use, by whatever, and that it has; nothing on a CPU.
  std::function<std::pair<int64_t, int64_t>()> memory_in_use = {};
};

/// Opened once per process, before any tensor and closed after the last one. While it stands, new tensors lie in the
/// device's memory and job.world() moves rows and floats there.
class OpenDevice {
 public:
  virtual ~OpenDevice() = default;
  OpenDevice(const OpenDevice&) = delete;
  OpenDevice& operator=(const OpenDevice&) = delete;
  const Device& device() const { return device_; }
  const Kernels& kernels() const { return *device_.kernels; }

 protected:
  OpenDevice() = default;
  Device device_;
};

/// name: one of kDeviceNames; precision: "float32" or "bfloat16" (how activations are stored; GPUs only). Collective:
/// all ranks ask for the same and get the same, or all throw. Throws UsageError where the program was not built with
/// CUDA, Error where there is no GPU or a rank has none for itself.
std::unique_ptr<OpenDevice> open_device(Job& job, const std::string& name, const std::string& precision = "float32");

}  // namespace heddle
