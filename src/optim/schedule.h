// Learning-rate schedules: warm-up, then stable and decay, or a cosine, or a line (docs/model_family.md section 5,
// docs/loom.md section 4.4), and a second warm-up after growth.
#pragma once

#include <cstdint>
#include <string>

namespace heddle {

/// Steps count from 1. A pure function of (step, total_steps), so nothing of it is saved.
struct Schedule {
  std::string name = "wsd";  ///< wsd | cosine | linear
  int64_t total_steps = 1;
  double warmup_ratio = 0.1;
  double decay_ratio = 0.1;  ///< wsd
  double min_ratio = 0.1;
  int64_t growth_step = 0, rewarm_steps = 0;  ///< either 0: no second warm-up

  int64_t warmup_steps() const;  ///< W = max(1, round(T * warmup_ratio)), half to even
  int64_t decay_steps() const;   ///< Dc = max(0, round(T * decay_ratio)), half to even
  /// Factor of the peak rate at step n: n/W below W. Then, with q = min(1, (n - W) / max(T - W, 1)) and m = min_ratio,
  /// wsd: from st = max(T - Dc, W) on linearly to m at T, else 1; cosine: m + (1 - m)(1 + cos(pi q))/2; linear:
  /// m + (1 - m)(1 - q). From growth_step g on times min(1, (n - g) / rewarm_steps), if rewarm_steps > 0.
  double factor(int64_t step) const;

 private:
  double base(int64_t step) const;
};

}  // namespace heddle
