// The presets in configs/: every file parses and validates, the sizes of the large ones are those of literal totals
// made by hand (docs/loom.md section 6) or published (docs/presets.md), by formula and by the model's own tensors;
// ablations and twins differ from their model in one key; ZeRO-1 splits the state of the largest as it should. Nothing
// here touches the memory of a model.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "comm/dry_communicator.h"
#include "model/published_counting.h"
#include "support/ini.h"
#include "train/memory_plan.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

/// Names of the files in configs/, sorted.
std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(HEDDLE_SOURCE_DIR) / "configs"))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// A preset as `heddle train --config` reads it, with further flags. A vocabulary that the store would give is 4096.
TrainConfig preset(const std::string& name, const std::vector<std::string>& flags = {}) {
  TrainConfig settings;
  Config keys;
  settings.declare(keys);
  std::vector<std::string> arguments{"--config", (fs::path(HEDDLE_SOURCE_DIR) / "configs" / name).string()};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  EXPECT_TRUE(keys.parse(arguments).empty()) << name;
  settings.validate();
  if (settings.model.vocabulary_size == 0) settings.model.vocabulary_size = 4096;
  return settings;
}

/// Elements of the tensors of a model, on pages that are never touched.
int64_t elements_of(const ModelConfig& config) {
  Allocator pages(untouched_memory());
  const ScopedAllocator scope(pages);
  const auto world = make_dry_communicator(0, 1);
  ProcessGroups groups(*world, make_dry_communicator(0, 1), make_dry_communicator(0, 1));
  const Kernels dry = dry::kernels(cpu::kernels());
  LoopedModel model(config, groups, dry);
  return model.parameters().global_count();
}

/// Highest resident memory of this process so far, in bytes.
int64_t peak_resident() {
  rusage usage{};
  EXPECT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  return usage.ru_maxrss * 1024;
}

/// Pages that were touched would show: the weights of the largest preset alone are 6.5 GB.
class Presets : public testing::Test {
 protected:
  void SetUp() override { before_ = peak_resident(); }
  void TearDown() override { EXPECT_LT(peak_resident() - before_, int64_t{1} << 30); }

 private:
  int64_t before_ = 0;
};

TEST_F(Presets, EveryFileInConfigsParsesAndItsModelHasTheElementsOfTheFormula) {
  const std::vector<std::string> names = preset_names();
  for (const char* known : {"loom-1.7b",
                            "loom-329m",
                            "loom-700m",
                            "loom-small",
                            "loom-tiny",
                            "loom-tiny-shared-router",
                            "loom-tiny-no-scale",
                            "loom-tiny-no-reinjection",
                            "loom-tiny-no-ema",
                            "loom-tiny-no-moe-norm",
                            "loom-tiny-no-balance",
                            "loom-tiny-rigged",
                            "loom-tiny-full",
                            "loom-tiny-one-step",
                            "deeploop-small",
                            "deeploop-medium",
                            "deeploop-tiny",
                            "deepnorm-small",
                            "deepnorm-medium",
                            "deepnorm-tiny",
                            "preln-small",
                            "preln-medium",
                            "preln-tiny",
                            "isodepth",
                            "isodepth-tiny",
                            "isodepth-truncated",
                            "isodepth-truncated-tiny",
                            "isodepth-hyper",
                            "isodepth-hyper-tiny",
                            "truncation-grid",
                            "truncation-grid-tiny",
                            "vanilla",
                            "vanilla-tiny",
                            "deep-vanilla",
                            "deep-vanilla-tiny",
                            "dv-grow",
                            "dv-grow-tiny",
                            "operator-1",
                            "operator-1-tiny",
                            "loop-2",
                            "loop-2-tiny",
                            "untied-2",
                            "untied-2-tiny",
                            "loop-grow",
                            "loop-grow-tiny",
                            "untied-grow",
                            "untied-grow-tiny",
                            "huginn-tiny",
                            "parcae-tiny"})
    EXPECT_TRUE(std::find(names.begin(), names.end(), std::string(known) + ".cfg") != names.end()) << known;
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const TrainConfig settings = preset(name);
    EXPECT_EQ(settings.directory, "runs/" + fs::path(name).stem().string()) << "two presets must not share a folder";
    EXPECT_NO_THROW(check_layout(2 * static_cast<int>(settings.expert_parallel),
                                 static_cast<int>(settings.expert_parallel), settings.layout_experts()));
    EXPECT_EQ(elements_of(settings.model), count_parameters(settings.model).total());
  }
}

TEST_F(Presets, TotalsOfTheLargeOnesAreThoseMadeByHand) {
  struct Row {
    const char* name;
    int64_t loops, total;
  };
  // 329M: 312,480,768 + 153,600 R.  1.7B: 1,639,729,920 + 576,000 R.  700M: 698,360,832 + 276,480 R.
  // Small, with 4096 ids: 61,868,032 + 32,768 R.
  const Row table[] = {
      {"loom-329m.cfg", 1, 312'634'368},    {"loom-329m.cfg", 3, 312'941'568},   {"loom-329m.cfg", 6, 313'402'368},
      {"loom-329m.cfg", 9, 313'863'168},    {"loom-329m.cfg", 12, 314'323'968},  {"loom-1.7b.cfg", 1, 1'640'305'920},
      {"loom-1.7b.cfg", 3, 1'641'457'920},  {"loom-1.7b.cfg", 6, 1'643'185'920}, {"loom-1.7b.cfg", 9, 1'644'913'920},
      {"loom-1.7b.cfg", 12, 1'646'641'920}, {"loom-700m.cfg", 5, 699'743'232},   {"loom-small.cfg", 6, 62'064'640},
  };
  for (const Row& row : table) {
    SCOPED_TRACE(fmt::format("{} with {} loops", row.name, row.loops));
    const ModelConfig model = preset(row.name, {"--model.loops", fmt::format("{}", row.loops)}).model;
    EXPECT_EQ(count_parameters(model).total(), row.total);
    EXPECT_EQ(elements_of(model), row.total);
  }
  // The loop counts that the files themselves name.
  EXPECT_EQ(count_parameters(preset("loom-329m.cfg").model).total(), 313'863'168);
  EXPECT_EQ(count_parameters(preset("loom-1.7b.cfg").model).total(), 1'644'913'920);
  EXPECT_EQ(count_parameters(preset("loom-700m.cfg").model).total(), 699'743'232);
}

/// Keys of two presets that differ, without run.directory.
std::vector<std::string> differences(const std::string& one, const std::string& other) {
  const auto read = [](const std::string& name) {
    TrainConfig settings;
    Config keys;
    settings.declare(keys);
    keys.parse({"--config", (fs::path(HEDDLE_SOURCE_DIR) / "configs" / name).string()});
    std::map<std::string, std::string> values;
    for (const IniEntry& entry : parse_ini(keys.resolved(), name)) values[entry.key] = entry.value;
    return values;
  };
  const std::map<std::string, std::string> a = read(one), b = read(other);
  std::vector<std::string> keys;
  for (const auto& [key, value] : a)
    if (key != "run.directory" && b.at(key) != value) keys.push_back(key);
  return keys;
}

TEST_F(Presets, AblationsAndTwinsDifferInOneKeyAndWhatBelongsToIt) {
  const struct {
    const char *one, *other;
    std::vector<std::string> keys;
  } table[] = {
      {"loom-tiny", "loom-tiny-shared-router", {"moe.router"}},
      {"loom-tiny", "loom-tiny-no-scale", {"residual.scheme"}},
      {"loom-tiny", "loom-tiny-no-reinjection", {"reinjection.kind"}},
      {"loom-tiny", "loom-tiny-no-ema", {"residual.looping"}},
      {"loom-tiny", "loom-tiny-no-moe-norm", {"norms.moe_out"}},
      {"loom-tiny", "loom-tiny-full", {"backprop.loops", "backprop.mode"}},
      {"loom-tiny", "loom-tiny-one-step", {"backprop.step_per_segment"}},
      {"deeploop-tiny", "deepnorm-tiny", {"residual.deepnorm_power"}},
      {"deeploop-small", "deepnorm-small", {"residual.deepnorm_power"}},
      {"deeploop-medium", "deepnorm-medium", {"residual.deepnorm_power"}},
  };
  for (const auto& row : table)
    EXPECT_EQ(differences(std::string(row.one) + ".cfg", std::string(row.other) + ".cfg"), row.keys) << row.other;
}

TEST_F(Presets, TotalsOfThePublishedStudies) {
  struct Row {
    const char* name;
    std::vector<std::string> flags;
    int64_t iso_depth, stored;  ///< 0: not compared
  };
  const std::vector<std::string> r1{"--model.prelude_layers", "0",   "--model.layers", "20",
                                    "--model.coda_layers",    "0",   "--model.loops",  "1",
                                    "--reinjection.kind",     "none"};
  const std::vector<std::string> s34{"--model.hidden_size", "2176", "--model.query_heads",         "17",
                                     "--model.kv_heads",    "17",   "--feed_forward.intermediate", "8704"};
  const auto d = [](int64_t depth, int64_t prelude, int64_t layers, int64_t coda, int64_t inner) {
    const auto text = [](int64_t n) { return fmt::format("{}", n); };
    return std::vector<std::string>{"--model.hidden_size",
                                    text(128 * depth),
                                    "--model.query_heads",
                                    text(depth),
                                    "--model.kv_heads",
                                    text(depth),
                                    "--model.prelude_layers",
                                    text(prelude),
                                    "--model.layers",
                                    text(layers),
                                    "--model.coda_layers",
                                    text(coda),
                                    "--feed_forward.intermediate",
                                    text(inner)};
  };
  const Row table[] = {
      {"isodepth", {}, 40'140'800, 0},
      {"isodepth", {"--model.layers", "8", "--model.loops", "2"}, 59'801'600, 0},
      {"isodepth", {"--model.layers", "2", "--model.loops", "8"}, 30'310'400, 0},
      {"isodepth", r1, 98'304'000, 0},
      {"isodepth", s34, 464'027'648, 0},
      {"isodepth-truncated", {}, 40'140'800, 0},
      // DeepLoop, by hand: K 12 D^2 + (4 K + 1) D + 2 V D with two norms a branch; half the norms for Pre-LN.
      {"deeploop-small", {}, 0, 12 * 12 * 768 * 768 + 49 * 768 + 2 * 50304 * 768},
      {"deeploop-small", {"--model.loops", "7"}, 0, 12 * 12 * 768 * 768 + 49 * 768 + 2 * 50304 * 768},
      {"deeploop-medium", {}, 0, 24 * 12 * 1024 * 1024 + 97 * 1024 + 2 * 50304 * 1024},
      {"preln-small", {}, 0, 12 * 12 * 768 * 768 + 25 * 768 + 2 * 50304 * 768},
      {"vanilla", {}, 0, 205'783'040},
      {"operator-1", {}, 0, 205'783'040},
      {"loop-2", {}, 0, 205'783'040},
      {"loop-grow", {}, 0, 205'783'040},
      {"deep-vanilla", {}, 0, 244'318'208},
      {"untied-2", {}, 0, 244'318'208},
      {"dv-grow", {}, 0, 321'388'544},
      {"untied-grow", {}, 0, 321'388'544},
      {"vanilla", d(6, 0, 6, 0, 2048), 0, 119'734'272},
      {"vanilla", d(20, 0, 20, 0, 6912), 0, 1'843'527'680},
      {"loop-2", d(10, 3, 4, 3, 3584), 0, 331'939'840},
      {"untied-2", d(12, 4, 4, 4, 4096), 0, 607'518'720},
      {"untied-grow", d(18, 6, 6, 6, 6144), 0, 2'525'036'544},
      {"untied-grow", d(26, 8, 9, 9, 8960), 0, 7'424'049'152},
  };
  for (const Row& row : table) {
    SCOPED_TRACE(fmt::format("{} {}", row.name, fmt::join(row.flags, " ")));
    const ModelConfig model = preset(std::string(row.name) + ".cfg", row.flags).model;
    if (row.iso_depth > 0) {
      EXPECT_EQ(IsoDepthCounting::parameters(model), row.iso_depth);
    }
    if (row.stored > 0) {
      EXPECT_EQ(ExponentsCounting::parameters(model), row.stored);
    }
    EXPECT_EQ(elements_of(model), count_parameters(model).total());
  }
}

TEST_F(Presets, GrowthAndWarmUpFallOnThePublishedSteps) {
  // Steps, those before growth (0: none) and those of the warm-up, of the ladders at d8.
  const struct {
    const char* name;
    int64_t steps, before, warm_up;
  } table[] = {{"vanilla", 1962, 0, 40},      {"deep-vanilla", 2796, 0, 5},   {"dv-grow", 2330, 1165, 5},
               {"operator-1", 2355, 0, 1},    {"loop-2", 2355, 0, 40},        {"untied-2", 2796, 0, 40},
               {"loop-grow", 2563, 2101, 40}, {"untied-grow", 3341, 2372, 40}};
  for (const auto& row : table) {
    SCOPED_TRACE(row.name);
    const TrainConfig settings = preset(std::string(row.name) + ".cfg");
    EXPECT_EQ(settings.steps, row.steps);
    EXPECT_EQ(settings.schedule.warmup_steps(), row.warm_up);
    EXPECT_EQ(settings.loop_schedule.growth_step, row.before > 0 ? row.before + 1 : 0);
    if (row.before > 0) {
      EXPECT_NEAR(settings.loops_of_steps().shares(row.steps).at(2),
                  static_cast<double>(row.before) / static_cast<double>(row.steps), 1e-12);
    }
  }
}

TEST_F(Presets, ZeroSplitsTheStateOfTheLargestOverRanksAndReplicas) {
  constexpr int kRanks = 8, kReplicas = 4;
  const auto state = [](const MemoryUse& plan) {
    return static_cast<double>(plan.peak[static_cast<size_t>(Purpose::kOptimizer)]);
  };
  const auto weights = [](const MemoryUse& plan) { return plan.peak[static_cast<size_t>(Purpose::kWeights)]; };
  // State does not depend on the batch; short sequences make the dry step quick.
  TrainConfig settings = preset("loom-1.7b.cfg", {"--layout.expert_parallel", "2", "--train.sequence_length", "31"});
  const MemoryUse whole = plan_memory(settings, settings.model, 0, kRanks);
  settings.optimizer.zero = true;
  const MemoryUse split = plan_memory(settings, settings.model, 0, kRanks);

  const auto total = static_cast<double>(1'644'913'920), experts = static_cast<double>(15 * 30 * 3 * 1280 * 768);
  constexpr double kBytes = 8;  // two float32 moments
  const double expected_whole = kBytes * (total - experts / 2);
  const double expected_split = kBytes * ((total - experts) / kRanks + experts / 2 / kReplicas);
  EXPECT_NEAR(state(split) / state(whole), expected_split / expected_whole, 0.05 * expected_split / expected_whole);
  // The allocator rounds sizes up, by an eighth at most.
  EXPECT_GE(state(whole), expected_whole);
  EXPECT_LE(state(whole), expected_whole * 9 / 8);
  EXPECT_EQ(weights(split), weights(whole));
  EXPECT_LT(split.total_peak, whole.total_peak);
}

TEST_F(Presets, ZeroLeavesEveryElementOfTheStateToOneRank) {
  constexpr int kRanks = 8, kWidth = 2;
  const TrainConfig settings = preset("loom-1.7b.cfg", {"--layout.zero", "true"});
  int64_t owned = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    Allocator pages(untouched_memory());
    const ScopedAllocator scope(pages);
    const auto world = make_dry_communicator(rank, kRanks);
    ProcessGroups groups(*world, make_dry_communicator(rank % kWidth, kWidth),
                         make_dry_communicator(rank / kWidth, kRanks / kWidth));
    const Kernels dry = dry::kernels(cpu::kernels());
    LoopedModel model(settings.model, groups, dry);
    Optimizer optimizer(settings.optimizer, model.parameters(), groups, dry);
    for (const Optimizer::State& state : optimizer.states()) owned += state.owned.count;
  }
  EXPECT_EQ(owned, 1'644'913'920);
}

}  // namespace
}  // namespace heddle
