#include "train/spike_guard.h"

#include <algorithm>
#include <cmath>

namespace heddle {

bool SpikeGuard::is_spike(size_t segment, double loss) const {
  constexpr double kHardLimit = 1.5, kRatio = 1.09, kFloor = 0.18, kRelative = 0.06;
  if (!std::isfinite(loss)) return true;
  const std::optional<double>& m = baseline_.at(segment);
  if (!m) return false;
  const double rise = loss - *m;
  return rise >= kHardLimit || loss >= kRatio * *m || rise >= std::max(kFloor, kRelative * *m);
}

void SpikeGuard::accept(size_t segment, double loss) {
  constexpr double kKeep = 0.9;
  std::optional<double>& m = baseline_.at(segment);
  m = m ? kKeep * *m + (1 - kKeep) * loss : loss;
}

}  // namespace heddle
