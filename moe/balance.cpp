#include "moe/balance.h"

#include <numeric>

namespace heddle {

void update_balance_bias(std::span<const int64_t> load, float rate, const Tensor& bias) {
  const int64_t experts = static_cast<int64_t>(load.size());
  require(bias.count() == experts, "balance bias of {} experts, load of {}", bias.count(), experts);
  const int64_t total = std::accumulate(load.begin(), load.end(), int64_t{0});
  std::vector<float> moved = bias.get<float>();
  for (int64_t e = 0; e < experts; ++e) {
    // mean > load  <=>  total > load * experts, exact in integers
    const auto at = static_cast<size_t>(e);
    const int64_t scaled = load[at] * experts;
    if (scaled < total) moved[at] += rate;
    if (scaled > total) moved[at] -= rate;
  }
  bias.set<float>(moved);
}

}  // namespace heddle
