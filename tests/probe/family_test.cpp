// The whole probe on points of the family that together hold everything that crosses loops: what exists, and that the
// model is left as it was.
#include "probe/probe.h"

#include <gtest/gtest.h>

#include "tests/data/temporary_folder.h"
#include "tests/train/family_points.h"
#include "tests/train/tiny_run.h"

namespace heddle {
namespace {

class ProbeOfFamily : public testing::TestWithParam<NamedPlan> {};

std::vector<float> all_weights(LoopedModel& model) {
  std::vector<float> all;
  for (const Parameter& p : model.parameters().all())
    for (const float value : p.value.get<float>()) all.push_back(value);
  return all;
}

TEST_P(ProbeOfFamily, FindsWhatThePointHas) {
  const TemporaryFolder folder;
  write_tiny_store(folder.path("store.h5"));
  const TokenStore store = TokenStore::open(folder.path("store.h5"));
  TrainingPlan plan = GetParam().plan;
  plan.model.vocabulary_size = store.vocabulary_size();
  const auto world = make_single_communicator();
  Training training(plan, *world, 1, 8);
  const ModelConfig& config = training.model.config();
  const std::vector<float> before = all_weights(training.model);
  ProbeOptions options;
  options.documents = {3, 16, 2, 1};
  options.effects = {config.core_moe() ? 1 : 0, {1, 7}};
  options.gradients = GradientDetail::kKappa;
  const ProbeResult r = probe(training.model, store, Part::kTrain, options);
  EXPECT_EQ(all_weights(training.model), before);

  const auto expect_measured = [](const std::vector<Effect>& effects, int64_t count) {
    EXPECT_EQ(effects.size(), static_cast<size_t>(count));
    for (const Effect& e : effects) EXPECT_TRUE(std::isfinite(e.change.mean) && std::isfinite(e.change.standard_error));
  };
  const int64_t loops = 5, layers = config.layers, outer = config.prelude_layers + config.coda_layers;
  EXPECT_GT(r.loss.mean, 0);
  expect_measured(r.skipped_loops, loops);
  expect_measured(r.skipped_blocks, loops * layers);
  expect_measured(r.skipped_layers, layers);
  expect_measured(r.loop_counts, 2);
  const bool swaps = config.core_moe() && config.tied;
  expect_measured(r.router_swaps, swaps ? 10 : 0);
  expect_measured(r.one_router, swaps ? 5 : 0);
  expect_measured(r.skipped_experts, config.core_moe() ? layers : 0);
  EXPECT_EQ(r.depth.entries.size(), static_cast<size_t>(1 + outer + loops * layers));
  EXPECT_EQ(static_cast<int64_t>(r.information.size()), training.model.stored_moe_layers());
  for (const MutualInformation& m : r.information) {
    EXPECT_EQ(m.slots, r.tokens * config.moe.top_k * (m.layer.starts_with("core") ? loops : 1)) << m.layer;
    EXPECT_LE(m.token.found, m.entropy + 1e-9);
    EXPECT_GE(m.loop_given_token.found, -1e-9);
  }
  EXPECT_EQ(r.gradients.kappas.size(), config.tied ? static_cast<size_t>(1 + 2 * layers) : 0U);
  for (const Kappa& k : r.gradients.kappas) {
    EXPECT_GT(k.kappa, 0) << k.group;
    EXPECT_LE(k.kappa, 5 + 1e-6) << k.group;
  }
  EXPECT_EQ(r.gradients.cosines.size(), config.lanes > 0 ? 4U : 8U);
  for (const GradientCosine& c : r.gradients.cosines) EXPECT_LE(std::abs(c.all), 1 + 1e-6) << c.mode << c.loops;
}

INSTANTIATE_TEST_SUITE_P(All, ProbeOfFamily, testing::ValuesIn(family_points()),
                         [](const auto& point) { return std::string(point.param.name); });

TEST(ProbeBeforeGrowth, IsOfTheLoopsThatThereAre) {
  const TemporaryFolder folder;
  write_tiny_store(folder.path("store.h5"));
  const TokenStore store = TokenStore::open(folder.path("store.h5"));
  TrainingPlan plan;
  plan.model.vocabulary_size = store.vocabulary_size();
  const auto world = make_single_communicator();
  Training training(plan, *world, 1, 8);
  training.model.set_active_loops(2);
  ProbeOptions options;
  options.documents = {3, 16, 2, 1};
  options.gradients = GradientDetail::kNorms;
  const ProbeResult r = probe(training.model, store, Part::kTrain, options);
  EXPECT_EQ(r.loops, 2);
  EXPECT_EQ(r.router_swaps.size(), 1U);
  EXPECT_EQ(r.loop_counts.size(), 3U);  // 1, 3 and 4
  EXPECT_EQ(r.gradients.matrices.front().loops.size(), 2U);
  EXPECT_TRUE(r.gradients.kappas.empty());
}

}  // namespace
}  // namespace heddle
