#include "device/device.h"

#include <algorithm>

#include "support/log.h"
#ifdef HEDDLE_WITH_CUDA
#include "device/cuda/cuda_device.h"
#endif

namespace heddle {

namespace {

#ifdef HEDDLE_WITH_CUDA
constexpr bool kBuiltForGpus = true;
#else
constexpr bool kBuiltForGpus = false;
#endif

class CpuDevice final : public OpenDevice {
 public:
  explicit CpuDevice(bool reference) {
    device_.name = reference ? "ref" : "cpu";
    device_.description = device_.name;
    device_.kernels = reference ? &ref::kernels() : &cpu::kernels();
  }
};

/// Why no GPU can be used here; empty where one can.
std::string why_no_gpu() {
#ifdef HEDDLE_WITH_CUDA
  return why_no_cuda_device();
#else
  return "this program was built without CUDA";
#endif
}

std::unique_ptr<OpenDevice> open_gpu(Job& job, DType activations) {
#ifdef HEDDLE_WITH_CUDA
  return open_cuda_device(job, activations);
#else
  static_cast<void>(job);
  static_cast<void>(activations);
  throw UsageError("this program was built without CUDA", "configure with -DHEDDLE_CUDA=ON, or use --device cpu");
#endif
}

}  // namespace

std::unique_ptr<OpenDevice> open_device(Job& job, const std::string& name, const std::string& precision) {
  const bool narrow = precision == "bfloat16";
  bool gpu = name == "cuda";
  if (name == "auto") {
    const std::string own = why_no_gpu();
    const std::vector<std::string> reasons = all_gather_text(
        job.world(), own.empty() ? own : fmt::format("rank {} on {}: {}", job.world().rank(), job.host(), own));
    const auto without = std::find_if(reasons.begin(), reasons.end(), [](const std::string& r) { return !r.empty(); });
    gpu = without == reasons.end();
    if (!gpu && kBuiltForGpus) log_warning("no GPU, so the CPU computes: " + *without);
  }
  if (gpu) return open_gpu(job, narrow ? DType::kBfloat16 : DType::kFloat32);
  if (narrow)
    throw UsageError("a CPU stores activations in float32 only", "use --device cuda, or run.precision float32");
  return std::make_unique<CpuDevice>(name == "ref");
}

}  // namespace heddle
