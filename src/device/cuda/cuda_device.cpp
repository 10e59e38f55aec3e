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

/// What will still be taken beside tensors: scratch of operations, staging of sums over ranks, and NCCL's buffers for
/// communicators and peers that come later. NCCL says nothing of their size; on large GPUs they are hundreds of MiB.
int64_t beside_tensors(int64_t all) {
  return std::max<int64_t>(int64_t{128} << 20, all / 32);
}

/// Two ranks with one GPU, or "". Collective.
std::string shared_gpu(Job& job) {
  const std::vector<std::string> all =
      all_gather_text(job.world(), fmt::format("{} on {}", cuda::context().properties().uuid, job.host()));
  for (size_t a = 0; a < all.size(); ++a)
    for (size_t b = a + 1; b < all.size(); ++b)
      if (all[a].substr(0, all[a].find(' ')) == all[b].substr(0, all[b].find(' ')))
        return fmt::format("ranks {} and {} have the same GPU: {}", a, b, all[a]);
  return "";
}

class CudaDevice final : public OpenDevice {
 public:
  CudaDevice(Job& job, int number, DType activations, const std::string& hint)
      : job_(job), context_({.device = number}), allocator_(memory_, keep_blocks()), scope_(allocator_) {
    const cuda::DeviceProperties& found = cuda::context().properties();
    device_.name = "cuda";
    device_.kernels = &cuda::kernels();
    device_.activations = activations;
    device_.memory_in_use = [] { return cuda::memory_in_use(); };
    device_.description = fmt::format("{}, compute capability {}.{}, {}", found.name, found.major, found.minor,
                                      human_bytes(static_cast<double>(found.memory_bytes)));
    if (const std::string shared = shared_gpu(job); !shared.empty()) throw Error(shared, hint);
    if (job.world().size() > 1) job.use_device_world(make_nccl_communicator(job.world()));
    const auto [used, all] = cuda::memory_in_use();
    device_.room_bytes = std::max<int64_t>(all - used - beside_tensors(all), 0);
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
  else if (visible.count > 1 && job.local_size() > visible.count)
    problem = fmt::format("{} has {} ranks and {} visible GPUs; every rank needs one of its own", job.host(),
                          job.local_size(), visible.count);
  const std::string hint =
      "look at nvidia-smi and CUDA_VISIBLE_DEVICES, start fewer ranks per host, or use --device cpu";
  throw_if_any_failed(job.world(), problem, hint);
  // A launcher may show each rank its own GPU only. Whether they are different ones, the GPUs say.
  const int number = visible.count == 1 ? 0 : job.local_rank();
  return std::make_unique<CudaDevice>(job, number, activations, hint);
}

}  // namespace heddle
