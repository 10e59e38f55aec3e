#include "optim/schedule.h"

#include <algorithm>
#include <cfenv>
#include <cmath>

namespace heddle {

namespace {
/// Round half to even; nearbyint does so in the default rounding mode.
int64_t round_half_even(double value) {
  return static_cast<int64_t>(std::nearbyint(value));
}
}  // namespace

int64_t WsdSchedule::warmup_steps() const {
  return std::max<int64_t>(1, round_half_even(static_cast<double>(total_steps) * warmup_ratio));
}

int64_t WsdSchedule::decay_steps() const {
  return std::max<int64_t>(0, round_half_even(static_cast<double>(total_steps) * decay_ratio));
}

double WsdSchedule::factor(int64_t step) const {
  const int64_t warmup = warmup_steps(), decay = decay_steps();
  const int64_t start = std::max(total_steps - decay, warmup);
  if (step < warmup) return static_cast<double>(step) / static_cast<double>(warmup);
  if (decay > 0 && step >= start) {
    const double progress =
        static_cast<double>(step - start) / static_cast<double>(std::max<int64_t>(total_steps - start, 1));
    return 1 + (min_ratio - 1) * std::clamp(progress, 0.0, 1.0);
  }
  return 1;
}

}  // namespace heddle
