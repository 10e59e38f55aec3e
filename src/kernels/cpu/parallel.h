// When a loop is worth a team of threads, and stretches of it that do not depend on how many there are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>

namespace heddle::cpu {

/// Elements below which a loop stays on one thread.
inline constexpr int64_t kParallelElements = 32768;
/// Elements of one stretch of an element-wise loop: fits in the first cache, the same at any thread count.
inline constexpr int64_t kStretch = 4096;

/// Calls body(first, last) for the stretches of [0, count), on several threads when it pays. What an element's vector
/// neighbours are, and so its bits, does not depend on the thread count.
template <typename Body>
void for_each_stretch(int64_t count, Body body) {
#pragma omp parallel for schedule(static) if (count > kParallelElements)
  for (int64_t first = 0; first < count; first += kStretch) body(first, std::min(first + kStretch, count));
}

/// Carries the first exception of a parallel region, which none may leave, to behind its end.
class FirstError {
 public:
  template <typename Body>
  void guard(Body body) noexcept {
    try {
      body();
    } catch (...) {
#pragma omp critical(heddle_first_error)
      if (!error_) error_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::exception_ptr error_;
};

}  // namespace heddle::cpu
