#include "train/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace heddle {

namespace {
std::string duration(double seconds) {
  const auto total = static_cast<int64_t>(std::llround(std::max(0.0, seconds)));
  if (total >= 3600) return fmt::format("{}h{:02}m", total / 3600, total / 60 % 60);
  if (total >= 60) return fmt::format("{}m{:02}s", total / 60, total % 60);
  return fmt::format("{}s", total);
}
}  // namespace

std::string progress_line(const Progress& p) {
  const double share = 100.0 * static_cast<double>(p.step) / static_cast<double>(p.steps);
  std::string line =
      fmt::format("step {}/{} {:5.1f}%  eta {:<6}  loss {:.4f}  bpb {:.3f}  norm {:#.3g}  lr {:.2e}  {:.0f} tok/s",
                  p.step, p.steps, share, duration(static_cast<double>(p.steps - p.step) * p.seconds_per_step), p.loss,
                  p.bits_per_byte, p.gradient_norm, p.learning_rate, p.tokens_per_second);
  if (p.utilisation > 0) line += fmt::format("  util {:.0f}%", 100 * p.utilisation);
  if (p.largest_share >= 0) line += fmt::format("  top expert {:.0f}%", 100 * p.largest_share);
  if (p.overlap >= 0) line += fmt::format("  overlap {:.3f}", p.overlap);
  return line;
}

double bits_per_byte(double nats, double bytes) {
  return bytes > 0 ? nats / std::numbers::ln2 / bytes : std::nan("");
}

double utilisation(double flops_per_token, double tokens_per_second, double peak_flops_per_second) {
  return peak_flops_per_second > 0 ? flops_per_token * tokens_per_second / peak_flops_per_second : 0;
}

double largest_expert_share(const std::vector<int64_t>& load, int64_t experts) {
  double largest = 0;
  for (auto cell = load.begin(); cell != load.end(); cell += experts) {
    const int64_t total = std::accumulate(cell, cell + experts, int64_t{0});
    if (total == 0) continue;
    largest =
        std::max(largest, static_cast<double>(*std::max_element(cell, cell + experts)) / static_cast<double>(total));
  }
  return largest;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0, count = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    sum += value;
    count += 1;
  }
  return count > 0 ? sum / count : -1;
}

}  // namespace heddle
