// Distributions of start values: a model that this program draws, against /initial of a case (docs/model_family.md
// section 9, "Initialisers").
#include <algorithm>
#include <cmath>

#include "train/growth.h"
#include "verify/case_runner.h"

namespace heddle {

namespace {

struct Moments {
  double count = 0, sum = 0, squares = 0, largest = 0;
};

/// Of the elements of all ranks, each once. `mine`: this rank holds some of them.
Moments moments_of(CaseRunner& run, const Tensor& tensor, bool mine) {
  Moments m;
  if (mine)
    for (const float value : tensor.get<float>()) {
      const auto v = static_cast<double>(value);
      m.count += 1;
      m.sum += v;
      m.squares += v * v;
      m.largest = std::max(m.largest, std::abs(v));
    }
  double sums[] = {m.count, m.sum, m.squares};
  run.world.all_reduce_sum(std::span<double>(sums));
  std::vector<double> largest(static_cast<size_t>(run.world.size()));
  run.world.all_gather(&m.largest, sizeof m.largest, largest.data());
  return {sums[0], sums[1], sums[2], *std::max_element(largest.begin(), largest.end())};
}

}  // namespace

void check_initial(CaseRunner& run) {
  if (!run.has("/initial")) return;
  constexpr double kStandardErrors = 5, kRounding = 1e-6;
  LoopedModel model(run.config.model, run.groups, run.kernels);
  model.initialise(1);
  const auto check = [&](const std::string& name, const Tensor& tensor, bool mine) {
    const std::string dataset = "/initial/" + name;
    if (!run.has(dataset) && loop_of_tensor(name, run.config.model.tied) >= run.initial_loops()) return;
    const std::vector<double> expected = run.read<double>(dataset, {3});  // mean, deviation, bound
    const Moments m = moments_of(run, tensor, mine);
    const double mean = m.sum / m.count, deviation = std::sqrt(std::max(0.0, m.squares / m.count - mean * mean));
    const double error = kStandardErrors * expected[1] / std::sqrt(m.count) + kRounding * (1 + expected[1]);
    const bool fits = std::abs(mean - expected[0]) <= error &&
                      // The standard error of a deviation is at most that of a mean (kurtosis up to 5).
                      std::abs(deviation - expected[1]) <= error + kRounding &&
                      m.largest <= expected[2] * (1 + kRounding);
    run.comparison.add_differences("initial", name, run.speaks() && !fits ? 1 : 0);
  };
  for (const Parameter& p : model.parameters().all()) check(p.name, p.value, run.contributes(p));
  for (int64_t l = 0; l < model.stored_moe_layers(); ++l)
    check(model.balance_bias_name(l), model.balance_bias(l), run.speaks());
}

}  // namespace heddle
