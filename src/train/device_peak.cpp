#include "train/device_peak.h"

#include <algorithm>
#include <chrono>

#include "tensor/tensor.h"

namespace heddle {

double measure_peak_flops(Communicator& world, const Kernels& kernels) {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t kSize = 512;
  constexpr double kFlops = 2.0 * kSize * kSize * kSize, kSeconds = 0.05;
  const Tensor a = Tensor::zeros({kSize, kSize}, Purpose::kWorkspace), b = a.clone(), c = a.clone();
  const auto multiply = [&] {
    kernels.matmul(Transpose::kNo, Transpose::kYes, kSize, kSize, kSize, 1, a.f32(), kSize, b.f32(), kSize, 0, c.f32(),
                   kSize);
  };
  multiply();
  world.barrier();
  // The best of many short runs: other programs on the machine only ever make it slower.
  double best = 0;
  const auto start = Clock::now();
  for (auto now = start; std::chrono::duration<double>(now - start).count() < kSeconds;) {
    multiply();
    const auto end = Clock::now();
    best = std::max(best, kFlops / std::chrono::duration<double>(end - now).count());
    now = end;
  }
  world.all_reduce_sum(std::span<double>(&best, 1));
  return best;
}

}  // namespace heddle
