#include "optim/schedule.h"

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <numbers>

#include "support/error.h"
#include "support/numbers.h"

namespace heddle {

namespace {
/// Round half to even; nearbyint does so in the default rounding mode.
int64_t round_half_even(double value) {
  return static_cast<int64_t>(std::nearbyint(value));
}
}  // namespace

int64_t Schedule::warmup_steps() const {
  return std::max<int64_t>(1, round_half_even(share_of(warmup_ratio, total_steps)));
}

int64_t Schedule::decay_steps() const {
  return std::max<int64_t>(0, round_half_even(share_of(decay_ratio, total_steps)));
}

double Schedule::base(int64_t step) const {
  const int64_t warmup = warmup_steps(), decay = decay_steps();
  if (step < warmup) return static_cast<double>(step) / static_cast<double>(warmup);
  if (name != "wsd") {
    require(name == "cosine" || name == "linear", "schedule '{}'", name);
    const double q = std::min(
        1.0, static_cast<double>(step - warmup) / static_cast<double>(std::max<int64_t>(total_steps - warmup, 1)));
    const double height = name == "cosine" ? (1 + std::cos(std::numbers::pi * q)) / 2 : 1 - q;
    return min_ratio + (1 - min_ratio) * height;
  }
  const int64_t start = std::max(total_steps - decay, warmup);
  if (decay > 0 && step >= start) {
    const double progress =
        static_cast<double>(step - start) / static_cast<double>(std::max<int64_t>(total_steps - start, 1));
    return 1 + (min_ratio - 1) * std::clamp(progress, 0.0, 1.0);
  }
  return 1;
}

double Schedule::factor(int64_t step) const {
  if (rewarm_steps == 0 || growth_step == 0 || step < growth_step) return base(step);
  return base(step) * std::min(1.0, static_cast<double>(step - growth_step) / static_cast<double>(rewarm_steps));
}

}  // namespace heddle
