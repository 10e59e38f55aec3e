// Loop counts of steps: functions of (seed, step) with the distributions that they claim, growth, and resuming.
#include "train/loop_schedule.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/data/temporary_folder.h"
#include "tests/train/tiny_run.h"

namespace heddle {
namespace {

LoopScheduleConfig uniform(int64_t low, int64_t high) {
  LoopScheduleConfig c;
  c.distribution = LoopDistribution::kUniform;
  c.low = low;
  c.high = high;
  c.finish(4, 100);
  return c;
}

LoopScheduleConfig poisson(int64_t model_loops, double sigma, int64_t high) {
  LoopScheduleConfig c;
  c.distribution = LoopDistribution::kPoisson;
  c.sigma = sigma;
  c.high = high;
  c.finish(model_loops, 100);
  return c;
}

std::vector<int64_t> draws(const LoopScheduleConfig& config, int64_t model_loops, uint64_t seed, int64_t count) {
  const LoopSchedule schedule(config, model_loops, seed);
  std::vector<int64_t> all;
  for (int64_t step = 1; step <= count; ++step) all.push_back(schedule.loops(step));
  return all;
}

TEST(LoopSchedule, IsAFunctionOfSeedAndStep) {
  for (const LoopScheduleConfig& config : {uniform(1, 9), poisson(4, 0.5, 0)}) {
    const std::vector<int64_t> forward = draws(config, 4, 3, 200);
    EXPECT_EQ(draws(config, 4, 3, 200), forward);
    const LoopSchedule again(config, 4, 3);
    for (int64_t step = 200; step >= 1; --step)
      EXPECT_EQ(again.loops(step), forward[static_cast<size_t>(step - 1)]) << "asked in another order";
    EXPECT_NE(draws(config, 4, 4, 200), forward) << "another seed";
    EXPECT_GT(std::count_if(forward.begin() + 1, forward.end(), [&](int64_t n) { return n != forward[0]; }), 100);
  }
}

TEST(LoopSchedule, FixedIsTheModelsCount) {
  LoopScheduleConfig config;
  config.finish(7, 100);
  EXPECT_EQ(draws(config, 7, 1, 50), std::vector<int64_t>(50, 7));
  EXPECT_EQ(LoopSchedule(config, 7, 1).largest(), 7);
}

TEST(LoopSchedule, UniformCoversLowToHighEvenly) {
  constexpr int64_t kDraws = 20000;
  std::map<int64_t, int64_t> counts;
  for (const int64_t n : draws(uniform(2, 8), 4, 1, kDraws)) ++counts[n];
  ASSERT_EQ(counts.size(), 7U);
  EXPECT_EQ(counts.begin()->first, 2);
  EXPECT_EQ(counts.rbegin()->first, 8);
  const double expected = kDraws / 7.0, deviation = std::sqrt(kDraws / 7.0 * 6 / 7);
  for (const auto& [loops, count] : counts)
    EXPECT_NEAR(static_cast<double>(count), expected, 4 * deviation) << loops << " loops";
  EXPECT_EQ(LoopSchedule(uniform(2, 8), 4, 1).largest(), 8);
  EXPECT_EQ(LoopSchedule(uniform(2, 3), 4, 1).largest(), 4) << "validation runs the model's count";
}

TEST(LoopSchedule, PoissonHasMeanAndVarianceOfItsLogNormalRate) {
  // n - 1 is Poisson with rate r, log r normal with mean log R - sigma^2 / 2: E r = R, var r = R^2 (exp(sigma^2) - 1).
  constexpr int64_t kDraws = 20000;
  for (const int64_t loops : {2, 4, 32})
    for (const double sigma : {0.0, 0.5}) {
      const std::vector<int64_t> all = draws(poisson(loops, sigma, 1024), loops, 1, kDraws);
      const double rate = static_cast<double>(loops), variance = rate + rate * rate * (std::exp(sigma * sigma) - 1);
      double sum = 0, squares = 0;
      for (const int64_t n : all) sum += static_cast<double>(n);
      const double mean = sum / kDraws;
      for (const int64_t n : all) squares += (static_cast<double>(n) - mean) * (static_cast<double>(n) - mean);
      EXPECT_NEAR(mean, rate + 1, 4 * std::sqrt(variance / kDraws)) << loops << " loops, sigma " << sigma;
      EXPECT_NEAR(squares / kDraws, variance, 0.08 * variance) << loops << " loops, sigma " << sigma;
      EXPECT_GE(*std::min_element(all.begin(), all.end()), 1);
      if (loops == 2) {
        EXPECT_GT(std::count(all.begin(), all.end(), 1), 0);
      }
    }
}

TEST(LoopSchedule, PoissonCountsAboveTheCapBecomeTheCap) {
  const std::vector<int64_t> capped = draws(poisson(4, 0.5, 6), 4, 1, 2000),
                             open = draws(poisson(4, 0.5, 1024), 4, 1, 2000);
  for (size_t i = 0; i < open.size(); ++i) EXPECT_EQ(capped[i], std::min<int64_t>(open[i], 6));
  EXPECT_GT(std::count(capped.begin(), capped.end(), 6), 100);
  EXPECT_GT(*std::max_element(open.begin(), open.end()), 10);
  EXPECT_EQ(poisson(4, 0.5, 0).high, 16) << "four times the model's";
  EXPECT_EQ(LoopSchedule(poisson(4, 0.5, 6), 4, 1).largest(), 6);
  // Rates that would overflow a sum of probabilities stay counts.
  for (const int64_t n : draws(poisson(1024, 3, 1024), 1024, 1, 300)) {
    EXPECT_GE(n, 1);
    EXPECT_LE(n, 1024);
  }
}

TEST(LoopSchedule, GrowsOnceAtTheStepBehindItsShare) {
  LoopScheduleConfig config;
  config.growth_initial_loops = 2;
  config.growth_at = 0.75;
  config.finish(5, 10);
  EXPECT_EQ(config.growth_step, 9) << "7.5 steps before growth are 8";
  const LoopSchedule schedule(config, 5, 1);
  for (int64_t step = 1; step <= 10; ++step) {
    EXPECT_EQ(schedule.loops(step), step < 9 ? 2 : 5);
    EXPECT_EQ(schedule.active(step), step < 9 ? 2 : 5);
    EXPECT_EQ(schedule.grows_at(step), step == 9);
  }
  config = uniform(3, 6);
  config.growth_initial_loops = 2;
  config.growth_step = 6;
  for (int64_t step = 1; step <= 40; ++step) {
    const int64_t loops = LoopSchedule(config, 5, 1).loops(step);
    EXPECT_TRUE(step < 6 ? loops == 2 : loops >= 3) << "step " << step;
  }
  config.growth_initial_loops = 0;
  EXPECT_FALSE(LoopSchedule(config, 5, 1).grows_at(6));
}

TEST(LoopSchedule, GrowthComesAtTheStepOfItsDecimals) {
  const struct {
    double at;
    int64_t steps, growth_step;
  } table[] = {{0.55, 100, 56}, {0.07, 100, 8}, {0.28, 25, 8}, {0.14, 50, 8}, {0.75, 10, 9}, {0.5, 2, 2}};
  for (const auto& row : table) {
    LoopScheduleConfig config;
    config.growth_initial_loops = 2;
    config.growth_at = row.at;
    config.finish(5, row.steps);
    EXPECT_EQ(config.growth_step, row.growth_step) << row.at << " of " << row.steps;
  }
}

TEST(LoopSchedule, RefusesGrowthThatDoesNotComeOrIsThereFromTheStart) {
  LoopScheduleConfig config;
  config.growth_initial_loops = 2;
  for (const double at : {0.0, 0.95, 0.999}) {
    config.growth_at = at;
    expect_error<UsageError>([&] { config.finish(5, 10); }, fmt::format("growth.at = {} of train.steps = 10", at));
  }
  config.growth_at = 0.9;
  config.finish(5, 10);
  EXPECT_EQ(config.growth_step, 10) << "the last step";
  expect_error<UsageError>([&] { config.finish(5, 1); }, "1 steps with growth.initial_loops, and leaves 0 with");
}

TEST(LoopSchedule, ItsCountsInWords) {
  EXPECT_EQ(loop_counts_text({{6, 1.0}}), "6 loops");
  EXPECT_EQ(loop_counts_text({{1, 0.5}, {2, 0.25}, {5, 0.25}}), "1 to 5 loops, 2.25 on average");
}

TEST(RandomLoops, GoOnToTheBitAndStandInTheLog) {
  const TemporaryFolder folder;
  write_tiny_store(folder.path("store.h5"));
  Job job;
  for (const LoopDistribution distribution : {LoopDistribution::kUniform, LoopDistribution::kPoisson}) {
    const std::string& name = kLoopDistributions(distribution);
    TrainConfig straight = tiny_run(folder.path("store.h5"), folder.path(name + "_straight"));
    straight.steps = 12;
    straight.loop_schedule.distribution = distribution;
    straight.loop_schedule.low = 1;
    straight.loop_schedule.high = 5;
    TrainConfig parts = straight;
    parts.directory = folder.path(name + "_parts");
    const TrainOutcome whole = train(job, straight);
    parts.stop_after = 5;
    train(job, parts);
    parts.stop_after = 0;
    parts.resume = true;
    const TrainOutcome rest = train(job, parts);
    expect_same_checkpoint(rest.checkpoint, whole.checkpoint);
    expect_same_log(parts.directory + "/log.h5", straight.directory + "/log.h5");
    LoopScheduleConfig finished = straight.loop_schedule;
    finished.finish(straight.model.loops, straight.steps);
    const LoopSchedule schedule(finished, straight.model.loops, static_cast<uint64_t>(straight.seed));
    const RunLog log = RunLog::open(parts.directory + "/log.h5");
    ASSERT_EQ(log.steps.size(), 12U);
    EXPECT_EQ(log.header.loops, 5);
    EXPECT_EQ(log.header.segments, 3);
    std::vector<int64_t> seen;
    double flops = 0;
    ModelConfig model = straight.model;
    model.vocabulary_size = 257;
    for (const StepRecord& step : log.steps) {
      EXPECT_EQ(step.loops, schedule.loops(step.step));
      seen.push_back(step.loops);
      const LoopWork work = work_of(straight.step.back_propagation, {}, step.loops);
      flops += training_flops_per_token(model, straight.sequence, work).total() / 12;
      for (int64_t segment = 0; segment < 3; ++segment)
        EXPECT_EQ(std::isnan(step.segment_loss[static_cast<size_t>(segment)]), segment * 2 >= step.loops)
            << "step " << step.step << ", segment " << segment;
      for (int64_t loop = 0; loop < 5; ++loop)
        EXPECT_EQ(std::isnan(step.state_rms[static_cast<size_t>(loop)]), loop >= step.loops) << "step " << step.step;
    }
    EXPECT_GT(std::count_if(seen.begin(), seen.end(), [&](int64_t n) { return n != seen[0]; }), 3);
    EXPECT_NEAR(log.header.flops_per_token, flops, 1e-9 * flops) << "the mean of what the steps ran";
  }
}

}  // namespace
}  // namespace heddle
