#include "train/loop_schedule.h"

#include <algorithm>
#include <cmath>

#include "support/error.h"
#include "support/numbers.h"
#include "support/random.h"

namespace heddle {

const Names<LoopDistribution> kLoopDistributions{"fixed", "uniform", "poisson"};

void LoopScheduleConfig::declare(Config& c) {
  const Limits count{1, kMostLoops, false, false};
  c.add("loop_count.distribution", distribution, kLoopDistributions,
        "loops of a step: model.loops, or drawn uniformly from low to high, or Poisson with a log-normal rate");
  c.add("loop_count.low", low, count, "uniform: smallest count");
  c.add("loop_count.high", high, {0, kMostLoops, false, false},
        "uniform: largest count; poisson: counts above become this one, 0: four times model.loops");
  c.add("loop_count.sigma", sigma, {0, 10, false, false}, "poisson: deviation of the logarithm of the rate");
  c.add("growth.initial_loops", growth_initial_loops, {0, kMostLoops, false, false},
        "loops until growth, then model.loops; 0: no growth");
  c.add("growth.at", growth_at, {0, 1, true, true}, "share of train.steps before growth");
}

void LoopScheduleConfig::finish(int64_t model_loops, int64_t total_steps) {
  if (distribution == LoopDistribution::kUniform && (high == 0 || low > high))
    throw UsageError(fmt::format("loop_count.low = {} and loop_count.high = {} leave nothing to draw from", low, high),
                     "give both, low not above high");
  if (distribution == LoopDistribution::kPoisson && high == 0) high = std::min<int64_t>(4 * model_loops, kMostLoops);
  if (growth_initial_loops == 0) return;
  if (growth_initial_loops >= model_loops)
    throw UsageError(
        fmt::format("growth.initial_loops = {} is not below model.loops = {}", growth_initial_loops, model_loops),
        "growth adds loops; use 0 for none");
  const auto before = static_cast<int64_t>(std::ceil(share_of(growth_at, total_steps)));
  if (before < 1 || before >= total_steps)
    throw UsageError(fmt::format("growth.at = {} of train.steps = {} is {} steps with growth.initial_loops, and leaves "
                                 "{} with model.loops",
                                 growth_at, total_steps, before, total_steps - before),
                     "growth needs a step on either side: another growth.at or more train.steps, or "
                     "growth.initial_loops 0 for none");
  growth_step = before + 1;
}

namespace {

/// Poisson variate by inversion: the smallest n whose cumulative probability exceeds u.
int64_t poisson(double rate, double u) {
  constexpr int64_t kEnough = 1 << 16;
  double term = std::exp(-rate), sum = term;
  int64_t n = 0;
  while (u >= sum && n < kEnough) {
    ++n;
    term *= rate / static_cast<double>(n);
    sum += term;
    if (term < 1e-300 && static_cast<double>(n) > rate) break;
  }
  return n;
}

}  // namespace

std::string loop_counts_text(const std::map<int64_t, double>& shares) {
  double mean = 0;
  for (const auto& [loops, share] : shares) mean += share * static_cast<double>(loops);
  if (shares.size() == 1) return fmt::format("{} loops", shares.begin()->first);
  return fmt::format("{} to {} loops, {:.2f} on average", shares.begin()->first, shares.rbegin()->first, mean);
}

int64_t LoopSchedule::loops(int64_t step) const {
  if (before_growth(step)) return config_.growth_initial_loops;
  const auto at = static_cast<uint64_t>(step);
  const double u = random_uniform(seed_, Draw::kLoops, 0, at);
  if (config_.distribution == LoopDistribution::kUniform) {
    const auto span = static_cast<double>(config_.high - config_.low + 1);
    return std::min(config_.low + static_cast<int64_t>(u * span), config_.high);
  }
  if (config_.distribution == LoopDistribution::kPoisson) {
    // Rates beyond 600 would underflow, and no count is above kMostLoops.
    const double mean_log = std::log(static_cast<double>(loops_)) - config_.sigma * config_.sigma / 2;
    const double rate = std::exp(mean_log + config_.sigma * random_normal(seed_, Draw::kLoops, 1, at));
    return std::min(poisson(std::min(rate, 600.0), u) + 1, config_.high);
  }
  return loops_;
}

std::map<int64_t, double> LoopSchedule::shares(int64_t total_steps) const {
  constexpr int64_t kDrawn = 100'000;
  const int64_t before = config_.growth_initial_loops > 0 ? std::min(config_.growth_step - 1, total_steps) : 0;
  const int64_t after = total_steps - before;
  const auto all = static_cast<double>(total_steps);
  std::map<int64_t, double> shares;
  if (before > 0) shares[config_.growth_initial_loops] += static_cast<double>(before) / all;
  const int64_t looked_at =
      config_.distribution == LoopDistribution::kFixed ? std::min<int64_t>(after, 1) : std::min(after, kDrawn);
  for (int64_t i = 1; i <= looked_at; ++i)
    shares[loops(before + i)] += static_cast<double>(after) / static_cast<double>(looked_at) / all;
  return shares;
}

int64_t LoopSchedule::largest() const {
  const int64_t drawn = config_.distribution == LoopDistribution::kFixed ? loops_ : config_.high;
  return std::max({drawn, loops_, config_.growth_initial_loops});
}

}  // namespace heddle
