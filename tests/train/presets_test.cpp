// The presets in configs/: every file parses and validates, the sizes of the large ones are those of literal totals
// made by hand (docs/loom.md section 6), by formula and by the model's own tensors, and ZeRO-1 splits the state of the
// largest as it should. Nothing here touches the memory of a model.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>

#include "comm/dry_communicator.h"
#include "model/counting.h"
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
  Allocator pages(Allocator::Backing::kUntouched);
  const ScopedAllocator scope(pages);
  const auto world = make_dry_communicator(0, 1);
  ProcessGroups groups(*world, make_dry_communicator(0, 1), make_dry_communicator(0, 1));
  LoopedModel model(config, groups, dry::kernels());
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
  for (const char* known : {"loom-1.7b.cfg", "loom-329m.cfg", "loom-700m.cfg", "loom-small.cfg", "loom-tiny.cfg"})
    EXPECT_TRUE(std::find(names.begin(), names.end(), known) != names.end()) << known;
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const TrainConfig settings = preset(name);
    EXPECT_EQ(settings.directory, "runs/" + fs::path(name).stem().string()) << "two presets must not share a folder";
    EXPECT_NO_THROW(check_layout(2 * static_cast<int>(settings.expert_parallel),
                                 static_cast<int>(settings.expert_parallel), settings.model.moe.experts));
    EXPECT_EQ(elements_of(settings.model), count_parameters(settings.model).total());
  }
}

TEST_F(Presets, TotalsOfTheLargeOnesAreThoseMadeByHand) {
  struct Row {
    const char* name;
    int64_t loops, total;
  };
  // 329M: 312,480,768 + 153,600 R.  1.7B: 1,639,729,920 + 576,000 R.  700M: 698,360,832 + 276,480 R.
  const Row table[] = {
      {"loom-329m.cfg", 1, 312'634'368},    {"loom-329m.cfg", 3, 312'941'568},   {"loom-329m.cfg", 6, 313'402'368},
      {"loom-329m.cfg", 9, 313'863'168},    {"loom-329m.cfg", 12, 314'323'968},  {"loom-1.7b.cfg", 1, 1'640'305'920},
      {"loom-1.7b.cfg", 3, 1'641'457'920},  {"loom-1.7b.cfg", 6, 1'643'185'920}, {"loom-1.7b.cfg", 9, 1'644'913'920},
      {"loom-1.7b.cfg", 12, 1'646'641'920}, {"loom-700m.cfg", 5, 699'743'232},
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
    Allocator pages(Allocator::Backing::kUntouched);
    const ScopedAllocator scope(pages);
    const auto world = make_dry_communicator(rank, kRanks);
    ProcessGroups groups(*world, make_dry_communicator(rank % kWidth, kWidth),
                         make_dry_communicator(rank / kWidth, kRanks / kWidth));
    LoopedModel model(settings.model, groups, dry::kernels());
    Optimizer optimizer(settings.optimizer, model.parameters(), groups, dry::kernels());
    for (const Optimizer::State& state : optimizer.states()) owned += state.owned.count;
  }
  EXPECT_EQ(owned, 1'644'913'920);
}

}  // namespace
}  // namespace heddle
