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

/// Of the elements of all ranks, each once.
Moments moments_of(CaseRunner& run, const Parameter& p) {
  Moments m;
  if (run.contributes(p))
    for (const float value : p.value.get<float>()) {
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
  for (Parameter& p : model.parameters().all()) {
    const std::string dataset = "/initial/" + p.name;
    if (!run.has(dataset) && loop_of_tensor(p.name, run.config.model.tied) >= run.initial_loops()) continue;
    const std::vector<double> expected = run.read<double>(dataset, {3});  // mean, deviation, bound
    const Moments m = moments_of(run, p);
    const double mean = m.sum / m.count, deviation = std::sqrt(std::max(0.0, m.squares / m.count - mean * mean));
    const double error = kStandardErrors * expected[1] / std::sqrt(m.count) + kRounding * (1 + expected[1]);
    const bool fits = std::abs(mean - expected[0]) <= error &&
                      // The standard error of a deviation is at most that of a mean (kurtosis up to 5).
                      std::abs(deviation - expected[1]) <= error + kRounding &&
                      m.largest <= expected[2] * (1 + kRounding);
    run.comparison.add_differences("initial", p.name, run.speaks() && !fits ? 1 : 0);
  }
}

}  // namespace heddle
