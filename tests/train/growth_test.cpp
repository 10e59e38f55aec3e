// Growth in the middle of a run: what the new loops start from, what the optimizer keeps, that nothing jumps, and that
// a run stopped around the step goes on to the bit.
#include "train/growth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/data/temporary_folder.h"
#include "tests/train/family_points.h"
#include "tests/train/tiny_run.h"
#include "train/checkpoint.h"
#include "train/evaluation.h"

namespace heddle {
namespace {

/// From `before` loops to the model's; growth comes in front of step 4.
TrainingPlan growing(ModelConfig model, int64_t before, int64_t loops) {
  TrainingPlan plan;
  plan.model = std::move(model);
  plan.model.loops = plan.optimizer.loops = loops;
  plan.model.validate();
  plan.loops.growth_initial_loops = before;
  plan.loops.growth_step = 4;
  plan.step.back_propagation = {};
  return plan;
}

/// Tied cores with everything that has a row or a tensor by loop.
std::vector<std::pair<const char*, ModelConfig>> tied_models() {
  ModelConfig routers = tiny_model();  // a router per loop
  ModelConfig biases = tiny_model();
  biases.moe.router = RouterSharing::kSharedBias;
  biases.moe.balance_scope = BalanceScope::kLayerLoop;
  biases.conditioning = Conditioning::kModulation;
  biases.conditioning_width = 8;
  ModelConfig lanes = dense_model();
  lanes.lanes = 2;
  lanes.conditioning = Conditioning::kEmbedding;
  return {{"a router per loop", routers}, {"biases and modulation", biases}, {"lanes", lanes}};
}

/// Summed cross-entropy of a batch at so many loops, as evaluation takes it.
double loss_at(Training& training, int64_t loops) {
  double sum = 0;
  add_losses(training.model, training.batches(4)[0], {loops}, 0, false, std::span<double>(&sum, 1));
  return sum;
}

std::vector<float> values_of(const Tensor& t) {
  return {t.f32(), t.f32() + t.count()};
}

TEST(Growth, OfATiedCoreStartsWhereTheEvaluationWithMoreLoopsStood) {
  const auto world = make_single_communicator();
  for (const auto& [name, model] : tied_models()) {
    SCOPED_TRACE(name);
    Training training(growing(model, 2, 4), *world, 1, 8);
    for (int64_t step = 1; step <= 3; ++step) EXPECT_EQ(training.run(step).loops, 2);
    EXPECT_EQ(training.model.active_loops(), 2);
    const double two = loss_at(training, 2), four = loss_at(training, 4);
    EXPECT_NE(two, four);
    training.prepare(4);
    EXPECT_EQ(training.model.active_loops(), 4);
    EXPECT_EQ(loss_at(training, 4), four);
    EXPECT_EQ(loss_at(training, 2), two);
    const StepResult first = training.run(4);
    EXPECT_EQ(first.loops, 4);
    EXPECT_EQ(first.cross_entropy[0], four * (1 / static_cast<double>(first.counted_targets)));
    EXPECT_NE(loss_at(training, 4), four) << "and then it learns";
  }
}

TEST(Growth, RowsOfNewLoopsAreCopiesOfTheLastAndHaveNoMoments) {
  const auto world = make_single_communicator();
  for (const auto& [name, model] : tied_models()) {
    SCOPED_TRACE(name);
    Training training(growing(model, 2, 4), *world, 1, 8);
    for (int64_t step = 1; step <= 3; ++step) training.run(step);
    std::vector<std::vector<float>> first, second;
    std::vector<int64_t> steps;
    for (const Optimizer::State& state : training.optimizer.states()) {
      first.push_back(values_of(state.first));
      second.push_back(values_of(state.second));
      steps.push_back(state.steps);
    }
    training.prepare(4);
    int64_t tables = 0, routers = 0;
    size_t i = 0;
    for (const Parameter& p : training.model.parameters().all()) {
      const Optimizer::State& state = training.optimizer.states()[i];
      const size_t router = p.name.find(".routers.");
      const bool new_router = router != p.name.npos && p.name[router + 9] >= '2';
      if (new_router) {
        ++routers;
        std::string source = p.name;
        source[router + 9] = '1';
        EXPECT_EQ(values_of(p.value), values_of(training.model.parameters().find(source).value)) << p.name;
        EXPECT_EQ(state.steps, 0) << p.name;
        for (const float m : values_of(state.first)) EXPECT_EQ(m, 0.0F) << p.name;
        for (const float m : values_of(state.second)) EXPECT_EQ(m, 0.0F) << p.name;
      } else {
        EXPECT_EQ(state.steps, 3) << p.name;
        EXPECT_EQ(state.steps, steps[i]) << p.name;
        EXPECT_EQ(values_of(state.first), first[i]) << p.name;
        EXPECT_EQ(values_of(state.second), second[i]) << p.name;
      }
      if (p.name.starts_with("hyper.") || p.name == "condition.embedding" || p.name == "condition.loop") {
        ++tables;
        const std::vector<float> table = values_of(p.value), moments = values_of(state.first);
        const size_t width = table.size() / 4;
        const auto row = [width](const std::vector<float>& all, size_t r) {
          return std::vector<float>(all.begin() + static_cast<std::ptrdiff_t>(r * width),
                                    all.begin() + static_cast<std::ptrdiff_t>((r + 1) * width));
        };
        for (const size_t r : {2U, 3U}) {
          EXPECT_EQ(row(table, r), row(table, 1)) << p.name;
          EXPECT_EQ(row(moments, r), std::vector<float>(width, 0)) << p.name;
        }
        EXPECT_NE(row(table, 0), row(table, 1)) << p.name;
        EXPECT_NE(row(moments, 1), std::vector<float>(width, 0)) << p.name;
      }
      ++i;
    }
    if (model.lanes > 0) {
      EXPECT_EQ(tables, 4);
    } else {
      EXPECT_EQ(routers, 4);
    }
    for (int64_t l = 0; l < training.model.stored_moe_layers(); ++l) {
      const std::vector<float> bias = values_of(training.model.balance_bias(l));
      for (size_t e = 0; bias.size() > 8 && e < 8; ++e) {
        EXPECT_EQ(bias[2 * 8 + e], bias[8 + e]);
        EXPECT_EQ(bias[3 * 8 + e], bias[8 + e]);
      }
    }
  }
}

TEST(Growth, AnUntiedCoreIsACopyOfTheCoreThatManyLoopsBefore) {
  const auto world = make_single_communicator();
  ModelConfig model = tiny_model();
  model.tied = false;
  for (const char* optimizer : {"adamw", "muonh"}) {
    SCOPED_TRACE(optimizer);
    TrainingPlan plan = growing(model, 2, 5);
    plan.optimizer.name = optimizer;
    plan.optimizer.muon.second_moment = 0.9;
    Training training(plan, *world, 1, 8);
    for (int64_t step = 1; step <= 3; ++step) training.run(step);
    std::vector<std::vector<float>> before, first, second;
    for (const Parameter& p : training.model.parameters().all()) before.push_back(values_of(p.value));
    for (const Optimizer::State& state : training.optimizer.states()) {
      first.push_back(values_of(state.first));
      second.push_back(values_of(state.second));
    }
    training.prepare(4);
    int64_t copies = 0;
    size_t i = 0;
    for (const Parameter& p : training.model.parameters().all()) {
      const Optimizer::State& state = training.optimizer.states()[i];
      const int64_t core = p.name.starts_with("core.") ? p.name[5] - '0' : 0;
      if (core < 2) {
        EXPECT_EQ(values_of(p.value), before[i]) << p.name;
        EXPECT_EQ(values_of(state.first), first[i]) << p.name;
        EXPECT_EQ(values_of(state.second), second[i]) << p.name;
        EXPECT_EQ(state.steps, 3) << p.name;
      } else {
        ++copies;
        std::string source = p.name;
        source[5] = static_cast<char>('0' + core % 2);
        const Parameter& from = training.model.parameters().find(source);
        EXPECT_EQ(values_of(p.value), values_of(from.value)) << p.name;
        EXPECT_NE(values_of(p.value), before[i]) << p.name << " was the same before";
        EXPECT_EQ(state.steps, 0) << p.name;
        for (const float m : values_of(state.first)) EXPECT_EQ(m, 0.0F) << p.name;
        for (const float m : values_of(state.second)) EXPECT_EQ(m, 0.0F) << p.name;
      }
      ++i;
    }
    EXPECT_GT(copies, 3 * 10);
    for (int64_t core = 2; core < 5; ++core)
      for (int64_t l = 0; l < 2; ++l) {
        const std::vector<float> bias = values_of(training.model.balance_bias(core * 2 + l));
        EXPECT_EQ(bias, values_of(training.model.balance_bias(core % 2 * 2 + l)));
        EXPECT_NE(bias, std::vector<float>(8, 0));
      }
    training.run(4);
    for (size_t j = 0; j < training.optimizer.states().size(); ++j) {
      const std::string& name = training.model.parameters().all()[j].name;
      const bool copy = name.starts_with("core.") && name[5] >= '2';
      EXPECT_EQ(training.optimizer.states()[j].steps, copy ? 1 : 4) << name;
    }
  }
}

TEST(Growth, LoopsThatAreYetToComeAreLeftAlone) {
  const auto world = make_single_communicator();
  std::vector<ModelConfig> models;
  for (const auto& [name, model] : tied_models()) models.push_back(model);
  models.push_back(tiny_model());
  models.back().tied = false;
  for (const ModelConfig& model : models) {
    Training training(growing(model, 2, 4), *world, 1, 8);
    std::vector<std::vector<float>> before;
    for (const Parameter& p : training.model.parameters().all()) before.push_back(values_of(p.value));
    training.run(1);
    size_t i = 0;
    for (const Parameter& p : training.model.parameters().all()) {
      const size_t router = p.name.find(".routers.");
      const bool later = model.tied ? router != p.name.npos && p.name[router + 9] >= '2'
                                    : p.name.starts_with("core.") && p.name[5] >= '2';
      EXPECT_EQ(p.has_gradient, !later) << p.name;
      if (later) {
        EXPECT_EQ(values_of(p.value), before[i]) << p.name;
      }
      ++i;
    }
  }
}

/// Eight steps of which growth comes in front of the fifth.
TrainConfig growing_run(const std::string& store, const std::string& directory, bool tied, const char* optimizer) {
  TrainConfig c = tiny_run(store, directory);
  c.model.tied = tied;
  c.model.loops = 4;
  c.steps = 8;
  c.loop_schedule.growth_initial_loops = 2;
  c.loop_schedule.growth_at = 0.5;
  c.schedule.rewarm_steps = 2;
  c.optimizer.name = optimizer;
  c.optimizer.muon.second_moment = 0.9;
  return c;
}

TEST(Growth, ARunStoppedBeforeAtAndAfterItGoesOnToTheBit) {
  const TemporaryFolder folder;
  write_tiny_store(folder.path("store.h5"));
  Job job;
  for (const bool tied : {true, false})
    for (const char* optimizer : {"adamw", "muon", "muonh"}) {
      const std::string name = fmt::format("{}_{}", optimizer, tied ? "tied" : "untied");
      const std::string straight = folder.path(name);
      const TrainOutcome whole = train(job, growing_run(folder.path("store.h5"), straight, tied, optimizer));
      // After steps 3, 4 (the next one grows) and 5 (it has grown).
      for (const int64_t stop : {3, 4, 5}) {
        SCOPED_TRACE(fmt::format("{}, stopped after step {}", name, stop));
        TrainConfig parts = growing_run(folder.path("store.h5"), fmt::format("{}_{}", straight, stop), tied, optimizer);
        parts.stop_after = stop;
        train(job, parts);
        parts.stop_after = 0;
        parts.resume = true;
        const TrainOutcome rest = train(job, parts);
        expect_same_checkpoint(rest.checkpoint, whole.checkpoint);
        expect_same_log(parts.directory + "/log.h5", straight + "/log.h5");
        EXPECT_EQ(rest.validation_bits_per_byte, whole.validation_bits_per_byte);
      }
      const RunLog log = RunLog::open(straight + "/log.h5");
      for (const StepRecord& step : log.steps) EXPECT_EQ(step.loops, step.step < 5 ? 2 : 4);
    }
}

TEST(Growth, ARunValidatesWithTheLoopsItHasAndGrowsByCopies) {
  const TemporaryFolder folder;
  write_tiny_store(folder.path("store.h5"));
  const TokenStore store = TokenStore::open(folder.path("store.h5"));
  Job job;
  TrainConfig config = growing_run(folder.path("store.h5"), folder.path("run"), true, "adamw");
  config.keep_checkpoints = 3;
  const auto stopped_after = [&](int64_t step) {
    config.stop_after = step;
    const TrainOutcome outcome = train(job, config);
    config.resume = true;
    ModelConfig model_config = config.model;
    model_config.vocabulary_size = store.vocabulary_size();
    ProcessGroups groups(job.world(), 1);
    LoopedModel model(model_config, groups, cpu::kernels());
    load_model(outcome.checkpoint, model);
    EvaluationOptions options;
    options.sequence = config.sequence;
    options.micro_batch = config.micro_batch;
    options.loops = {2, 4};
    const std::vector<EvaluationResult> results = evaluate(model, store, Part::kValidation, options);
    EXPECT_NE(results[0].bits_per_byte, results[1].bits_per_byte);
    EXPECT_EQ(outcome.validation_bits_per_byte, results[step < 5 ? 0 : 1].bits_per_byte) << "after step " << step;
    const auto router = [&](int64_t loop) {
      return values_of(model.parameters().find(fmt::format("core.1.moe.routers.{}.weight", loop)).value);
    };
    return std::vector<std::vector<float>>{router(0), router(1), router(2), router(3)};
  };
  const auto before = stopped_after(4);
  EXPECT_NE(before[2], before[1]) << "not made yet";
  // The rate of the first step after growth is 0: the copies are still equal.
  const auto at = stopped_after(5);
  EXPECT_NE(at[0], at[1]);
  EXPECT_EQ(at[2], at[1]);
  EXPECT_EQ(at[3], at[1]);
  EXPECT_EQ(at[1], before[1]);
  const auto after = stopped_after(6);
  EXPECT_NE(after[2], after[1]);
  EXPECT_NE(after[2], after[3]);
}

TEST(Growth, TheRateWarmsUpAgain) {
  const TemporaryFolder folder;
  write_tiny_store(folder.path("store.h5"));
  Job job;
  TrainConfig c = growing_run(folder.path("store.h5"), folder.path("run"), true, "adamw");
  c.schedule.warmup_ratio = 0.125;
  c.schedule.decay_ratio = 0;
  train(job, c);
  const RunLog log = RunLog::open(folder.path("run/log.h5"));
  ASSERT_EQ(log.steps.size(), 8U);
  const double expected[] = {1, 1, 1, 1, 0, 0.5, 1, 1};
  for (size_t i = 0; i < 8; ++i)
    EXPECT_DOUBLE_EQ(log.steps[i].learning_rate, expected[i] * c.optimizer.learning_rate) << "step " << i + 1;
}

}  // namespace
}  // namespace heddle
