// Learning-rate schedule: warm-up, stable, decay (docs/loom.md section 4.4).
#pragma once

#include <cstdint>

namespace heddle {

/// Steps count from 1. A pure function of (step, total_steps), so nothing of it is saved.
struct WsdSchedule {
  int64_t total_steps = 1;
  double warmup_ratio = 0.1;
  double decay_ratio = 0.1;
  double min_ratio = 0.1;

  int64_t warmup_steps() const;  ///< max(1, round(T * warmup_ratio)), half to even
  int64_t decay_steps() const;   ///< max(0, round(T * decay_ratio)), half to even
  /// Factor of the peak rate at step n: n/W below W; from st = max(T - Dc, W) on linearly to min_ratio at T; else 1.
  double factor(int64_t step) const;
};

}  // namespace heddle
