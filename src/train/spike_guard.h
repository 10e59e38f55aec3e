// The release's guard against loss spikes (docs/loom.md section 4.6): one baseline per segment, an average of the
// accepted losses.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace heddle {

class SpikeGuard {
 public:
  explicit SpikeGuard(size_t segments) : baseline_(segments) {}

  /// True if a segment with this loss must be skipped: not finite, or a baseline m exists and
  /// loss - m >= 1.5, or loss >= 1.09 m, or loss - m >= max(0.18, 0.06 m).
  bool is_spike(size_t segment, double loss) const;
  /// Takes an accepted loss into the baseline: m <- 0.9 m + 0.1 loss, the first as it is.
  void accept(size_t segment, double loss);

  std::vector<std::optional<double>>& baselines() { return baseline_; }  ///< for checkpoints

 private:
  std::vector<std::optional<double>> baseline_;
};

}  // namespace heddle
