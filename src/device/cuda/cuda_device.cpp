#include "device/cuda/cuda_device.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "comm/cuda/nccl_communicator.h"
#include "cuda/context.h"
#include "cuda/memory.h"
#include "device/cuda/cuda_memory.h"
#include "support/numbers.h"

namespace heddle {

namespace {

/// Every tensor a block of its own, of its exact size, so that memory checkers see overruns. Slow; for tests.
bool keep_blocks() {
  const char* const text = std::getenv("HEDDLE_MEMORY_POOL");
  return text == nullptr || std::string_view(text) != "off";
}

/// What operations and sums over ranks will still take for themselves (cuda/scratch.h, kStagingBytes of NCCL sums).
constexpr int64_t kBesideTensors = int64_t{128} << 20;

class CudaDevice final : public OpenDevice {
 public:
  CudaDevice(Job& job, int number, DType activations)
      : job_(job), context_({.device = number}), allocator_(memory_, keep_blocks()), scope_(allocator_) {
    const cuda::DeviceProperties& found = cuda::context().properties();
    device_.name = "cuda";
    device_.kernels = &cuda::kernels();
    device_.activations = activations;
    device_.memory_in_use = [] { return cuda::memory_in_use(); };
    device_.description = fmt::format("{}, compute capability {}.{}, {}", found.name, found.major, found.minor,
                                      human_bytes(static_cast<double>(found.memory_bytes)));
    if (job.world().size() > 1) job.use_device_world(make_nccl_communicator(job.world()));
    const auto [used, all] = cuda::memory_in_use();
    device_.room_bytes = std::max<int64_t>(all - used - kBesideTensors, 0);
  }
  ~CudaDevice() override { job_.use_device_world(nullptr); }

 private:
  struct OwnedContext {
    explicit OwnedContext(const cuda::ContextOptions& options) { cuda::create_context(options); }
    ~OwnedContext() { cuda::destroy_context(); }
  };

  Job& job_;
  OwnedContext context_;  // outlives all memory
  CudaMemory memory_;
  Allocator allocator_;
  ScopedAllocator scope_;
};

}  // namespace

std::string why_no_cuda_device() {
  return cuda::visible_devices().why_none;
}

std::unique_ptr<OpenDevice> open_cuda_device(Job& job, DType activations) {
  const cuda::VisibleDevices visible = cuda::visible_devices();
  std::string problem;
  if (visible.count == 0)
    problem = fmt::format("{} sees no GPU: {}", job.host(), visible.why_none);
  else if (job.local_size() > visible.count)
    problem = fmt::format("{} has {} ranks and {} visible GPU(s); every rank needs one of its own", job.host(),
                          job.local_size(), visible.count);
  throw_if_any_failed(job.world(), problem,
                      "look at nvidia-smi and CUDA_VISIBLE_DEVICES, start fewer ranks per host, or use --device cpu");
  return std::make_unique<CudaDevice>(job, job.local_rank(), activations);
}

}  // namespace heddle
