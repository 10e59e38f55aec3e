#include "train/device_peak.h"

#include <algorithm>
#include <chrono>

namespace heddle {

namespace {

using Clock = std::chrono::steady_clock;

/// Products of square matrices.
class Products {
 public:
  Products(const Kernels& kernels, int64_t size, DType type)
      : kernels_(kernels),
        size_(size),
        a_(Tensor::zeros({size, size}, Purpose::kWorkspace, type)),
        b_(a_.clone()),
        c_(a_.clone()) {
    seconds_of(1);
  }

  /// Of so many products, to the end of the last one on the device.
  double seconds_of(int64_t count) const {
    const auto start = Clock::now();
    for (int64_t i = 0; i < count; ++i)
      kernels_.matmul(Transpose::kNo, Transpose::kYes, size_, size_, size_, 1, a_.reals(), size_, b_.reals(), size_, 0,
                      c_.reals(), size_);
    c_.rows(0, 1).on_host();
    return std::chrono::duration<double>(Clock::now() - start).count();
  }
  double flops() const {
    return 2.0 * static_cast<double>(size_) * static_cast<double>(size_) * static_cast<double>(size_);
  }

 private:
  const Kernels& kernels_;
  int64_t size_;
  Tensor a_, b_, c_;
};

}  // namespace

double measure_peak_flops(Communicator& world, const Kernels& kernels, DType type) {
  constexpr int64_t kSmallest = 512, kLargest = 8192;
  constexpr double kSeconds = 0.05, kProductSeconds = 0.5e-3;
  int64_t size = kSmallest;
  while (size < kLargest && Products(kernels, size, type).seconds_of(1) < kProductSeconds) size *= 2;
  const Products products(kernels, size, type);
  world.barrier();
  // The best of many short runs: other programs on the machine only ever make it slower.
  double best = 0, spent = 0;
  while (spent < kSeconds) {
    const double seconds = products.seconds_of(1);
    best = std::max(best, products.flops() / seconds);
    spent += seconds;
  }
  world.all_reduce_sum(std::span<double>(&best, 1));
  return best;
}

}  // namespace heddle
