#include "cuda/launch_shape.h"

#include <fmt/format.h>

#include <algorithm>

#include "support/error.h"
#include "support/narrow.h"

namespace heddle::cuda {

void check_launch(cudaError_t status, const LaunchShape& shape) {
  if (status == cudaSuccess) return;
  const auto text = [](const dim3& d) { return fmt::format("{} x {} x {}", d.x, d.y, d.z); };
  throw Error(fmt::format("{}:{}: launch of {} blocks of {} threads with {} bytes of dynamic shared memory: {} ({})",
                          shape.file, shape.line, text(shape.grid), text(shape.block), shape.dynamic_shared_bytes,
                          cudaGetErrorString(status), cudaGetErrorName(status)),
              status == cudaErrorNoKernelImageForDevice
                  ? "this build has no code for this GPU: configure with -DCMAKE_CUDA_ARCHITECTURES=<its compute "
                    "capability>"
                  : "an earlier kernel may be what failed: CUDA_LAUNCH_BLOCKING=1 shows that");
}

unsigned block_count(int64_t items, int64_t items_per_block) {
  return narrow<unsigned>(div_up(items, items_per_block));
}

unsigned threads_of_one_block(int64_t items) {
  constexpr int64_t kWarp = 32, kMost = 1024;
  return static_cast<unsigned>(std::clamp(div_up(items, kWarp) * kWarp, kWarp, kMost));
}

int to_int(int64_t number) {
  return narrow<int>(number);
}

}  // namespace heddle::cuda
