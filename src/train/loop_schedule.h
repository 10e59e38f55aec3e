// How many loops a step runs: a fixed count, one drawn per step, and growth from fewer loops to more during a run
// (docs/model_family.md sections 5 and 9). A function of (seed, step) only: nothing of it is saved, and all ranks
// agree.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "support/config.h"

namespace heddle {

inline constexpr int64_t kMostLoops = 1024;  ///< that a model or a step may have

enum class LoopDistribution { kFixed, kUniform, kPoisson };
extern const Names<LoopDistribution> kLoopDistributions;

struct LoopScheduleConfig {
  LoopDistribution distribution = LoopDistribution::kFixed;
  int64_t low = 1;     ///< uniform: smallest count
  int64_t high = 0;    ///< uniform: largest count; poisson: counts above become this one, 0: four times the model's
  double sigma = 0.5;  ///< poisson: deviation of the logarithm of the rate
  int64_t growth_initial_loops = 0;  ///< R0; 0: no growth
  double growth_at = 0.75;           ///< share of the steps that run R0 loops
  int64_t growth_step = 0;           ///< first step with all loops, from 1; set by finish() from growth_at, or by hand

  void declare(Config& config);
  /// Checks against the model's loops and fills growth_step and high. Throws UsageError.
  void finish(int64_t model_loops, int64_t total_steps);
};

/// Loop counts of steps in words: "6 loops", or "1 to 12 loops, 4.71 on average". `shares` as LoopSchedule::shares.
std::string loop_counts_text(const std::map<int64_t, double>& shares);

class LoopSchedule {
 public:
  LoopSchedule(const LoopScheduleConfig& config, int64_t model_loops, uint64_t seed)
      : config_(config), loops_(model_loops), seed_(seed) {}

  /// Loops of a step, from 1.
  int64_t loops(int64_t step) const;
  /// Loops that have tensors of their own in a step: R0 before growth, R from growth_step on.
  int64_t active(int64_t step) const { return before_growth(step) ? config_.growth_initial_loops : loops_; }
  bool grows_at(int64_t step) const { return config_.growth_initial_loops > 0 && step == config_.growth_step; }
  int64_t largest() const;  ///< that any step can run
  /// Share of the steps 1 .. total_steps that run each loop count, by count; drawn counts are looked at for
  /// 100,000 steps at most.
  std::map<int64_t, double> shares(int64_t total_steps) const;

 private:
  bool before_growth(int64_t step) const { return config_.growth_initial_loops > 0 && step < config_.growth_step; }
  LoopScheduleConfig config_;
  int64_t loops_;
  uint64_t seed_;
};

}  // namespace heddle
