// Interventions with answers made by hand: what does nothing changes nothing, and what is planted is found.
#include "probe/effects.h"

#include "tests/probe/probe_scene.h"

namespace heddle {
namespace {

ProbeResult effects_of(ProbeScene& s, EffectOptions options = {}) {
  const ProbeDocuments documents = s.documents();
  ChoiceRecord choices(s.model->config(), documents);
  ProbeResult result;
  result.loops = s.model->active_loops();
  result.layers = s.model->config().layers;
  probe_effects(*s.model, documents, options, choices, result);
  return result;
}

double loss_of(ProbeScene& s, const Interventions* changes = nullptr) {
  const ProbeDocuments documents = s.documents();
  const std::vector<double> sums = document_losses(*s.model, documents, {s.model->active_loops()}, changes)[0];
  return estimate(sums, documents.tokens()).mean;
}

/// Weights of an expert of layer 0 become zero, so that it contributes nothing.
void clear_expert(ProbeScene& s, int64_t expert) {
  s.parameter("core.0.moe.experts.down_proj.weight").value.rows(expert, 1).fill_zero();
}

TEST(Effects, ABlockThatContributesNothingIsNotMissed) {
  ProbeScene s(plain_dense());
  s.parameter("core.1.attn.o_proj.weight").value.fill_zero();
  s.parameter("core.1.mlp.down_proj.weight").value.fill_zero();
  const ProbeResult r = effects_of(s);
  ASSERT_EQ(r.skipped_blocks.size(), 6U);
  for (const Effect& e : r.skipped_blocks) {
    EXPECT_EQ(e.documents, 5);
    if (e.layer == 1) {
      EXPECT_EQ(e.change.mean, 0) << e.loop;
      EXPECT_EQ(e.change.standard_error, 0) << e.loop;
    } else {
      EXPECT_GT(std::abs(e.change.mean), 1e-4) << e.loop;
    }
  }
  EXPECT_EQ(r.skipped_layers.at(1).change.mean, 0);
  EXPECT_NE(r.skipped_layers.at(0).change.mean, 0);
  // A loop is its blocks here. Skipping the layer that works in all loops leaves the embedding.
  for (size_t t = 0; t < 3; ++t) EXPECT_EQ(r.skipped_loops.at(t).change.mean, r.skipped_blocks.at(2 * t).change.mean);
  EXPECT_TRUE(r.router_swaps.empty());
  EXPECT_TRUE(r.one_router.empty());
}

TEST(Effects, ASkippedFirstLoopIsAShorterRunOfWhatFollows) {
  // Without re-injection and with tied weights loops are alike: three of which one is skipped are two.
  ProbeScene s(plain_dense());
  const ProbeResult r = effects_of(s, {0, {2, 5}});
  ASSERT_EQ(r.loop_counts.size(), 2U);
  EXPECT_EQ(r.loop_counts[0].loops, 2);
  EXPECT_EQ(r.loop_counts[1].loops, 5);
  for (const Effect& e : r.skipped_loops) EXPECT_EQ(e.change.mean, r.loop_counts[0].change.mean) << e.loop;
  ASSERT_EQ(r.loss_by_loop.size(), 3U);
  EXPECT_EQ(r.loss_by_loop[2].loss.mean, r.loss.mean);
  EXPECT_NEAR(r.loss_by_loop[1].loss.mean - r.loss.mean, r.loop_counts[0].change.mean, 1e-12);
}

TEST(Effects, OneLoopHasNothingToSwap) {
  ModelConfig c = tiny_model();
  c.loops = 1;
  ProbeScene s(c);
  const ProbeResult r = effects_of(s);
  EXPECT_TRUE(r.router_swaps.empty());
  EXPECT_TRUE(r.one_router.empty());
  EXPECT_EQ(r.skipped_loops.size(), 1U);
}

TEST(Effects, EqualRoutersCanBeSwapped) {
  // Start values: the routers of all loops are copies. Loop 3 gets another one.
  ProbeScene s(tiny_model(), 0);
  for (const char* name : {"core.0.moe.routers.3.weight", "core.1.moe.routers.3.weight"})
    s.parameter(name).value.copy_from(random_tensor({8, 32}, 77, 0.5));
  const ProbeResult r = effects_of(s);
  ASSERT_EQ(r.router_swaps.size(), 6U);
  for (const Effect& e : r.router_swaps) {
    if (e.other_loop == 3)
      EXPECT_GT(std::abs(e.change.mean), 1e-6) << e.loop;
    else
      EXPECT_EQ(e.change.mean, 0) << e.loop << " and " << e.other_loop;
  }
  ASSERT_EQ(r.one_router.size(), 4U);
  EXPECT_EQ(r.one_router[0].change.mean, r.one_router[2].change.mean);
  EXPECT_NE(r.one_router[3].change.mean, r.one_router[2].change.mean);
}

TEST(Effects, OneRouterIsThatRouterInAllPlaces) {
  ProbeScene s(tiny_model());
  const ProbeResult r = effects_of(s);
  for (int l = 0; l < 2; ++l)
    for (int t = 0; t < 4; ++t)
      s.parameter(fmt::format("core.{}.moe.routers.{}.weight", l, t))
          .value.copy_from(s.parameter(fmt::format("core.{}.moe.routers.2.weight", l)).value);
  EXPECT_NE(loss_of(s), r.loss.mean);
  EXPECT_NEAR(r.loss.mean + r.one_router.at(2).change.mean, loss_of(s), 1e-12);
}

TEST(Effects, ASwapIsAnExchangeOfTheRouters) {
  ProbeScene s(tiny_model());
  const ProbeResult r = effects_of(s);
  for (int l = 0; l < 2; ++l) {
    const Tensor& one = s.parameter(fmt::format("core.{}.moe.routers.1.weight", l)).value;
    const Tensor& three = s.parameter(fmt::format("core.{}.moe.routers.3.weight", l)).value;
    const Tensor kept = one.clone();
    one.copy_from(three);
    three.copy_from(kept);
  }
  const Effect& swap = r.router_swaps.at(4);  // 01 02 03 12 13 23
  ASSERT_EQ(swap.loop, 1);
  ASSERT_EQ(swap.other_loop, 3);
  EXPECT_NE(swap.change.mean, 0);
  EXPECT_NEAR(r.loss.mean + swap.change.mean, loss_of(s), 1e-12);
}

TEST(Effects, ARouterCanServeInOneLayerAlone) {
  ProbeScene s(tiny_model());
  Interventions changes;
  changes.routers[{1, 0}] = 3;
  const double found = loss_of(s, &changes), intact = loss_of(s);
  s.parameter("core.0.moe.routers.1.weight").value.copy_from(s.parameter("core.0.moe.routers.3.weight").value);
  EXPECT_NEAR(found, loss_of(s), 1e-12);
  EXPECT_NE(found, intact);
}

/// Weights of slots that are not kept.
class DroppedWeights final : public DocumentObserver {
 public:
  void on_block(const BlockView& view) override {
    const std::vector<uint8_t> keep = view.routing.keep.get<uint8_t>();
    const std::vector<float> weights = view.routing.weights.get<float>();
    for (size_t i = 0; i < keep.size(); ++i)
      if (keep[i] == 0) {
        ++slots;
        largest = std::max(largest, weights[i]);
      }
  }
  int64_t slots = 0;
  float largest = 0;
};

TEST(Effects, ObserversSeeSkippedSlotsWithoutWeight) {
  ProbeScene s(tiny_model());
  Interventions changes;
  for (int64_t expert = 0; expert < 8; ++expert) changes.skipped_experts.insert({0, expert});
  for (int64_t expert = 0; expert < 8; ++expert) changes.skipped_experts.insert({1, expert});
  const ProbeDocuments documents = s.documents();
  DroppedWeights dropped;
  document_losses(*s.model, documents, {4}, &changes, &dropped);
  EXPECT_GT(dropped.slots, 0);
  EXPECT_EQ(dropped.largest, 0);
}

TEST(Effects, ASkippedExpertIsOneThatGivesZero) {
  ProbeScene s(tiny_model());
  const ProbeResult r = effects_of(s, {2, {}});
  ASSERT_EQ(r.skipped_experts.size(), 4U);
  const Effect& most = r.skipped_experts[0];
  EXPECT_EQ(most.layer, 0);
  EXPECT_EQ(r.skipped_experts[2].layer, 1);
  EXPECT_GT(most.slots, 0);
  EXPECT_GT(std::abs(most.change.mean), 1e-6);
  clear_expert(s, most.expert);
  EXPECT_NEAR(r.loss.mean + most.change.mean, loss_of(s), 1e-6);
  Interventions changes;
  changes.skipped_experts = {{0, most.expert}};
  EXPECT_NEAR(loss_of(s, &changes), loss_of(s), 1e-6) << "an expert that gives zero is missed";
}

TEST(Effects, SkippedSlotsAreThoseThatTheExpertHad) {
  ModelConfig c = tiny_model();
  c.loops = 1;
  c.layers = 1;
  ProbeScene s(c);
  const ProbeDocuments documents = s.documents();
  ChoiceRecord choices(s.model->config(), documents);
  ProbeResult r;
  r.loops = r.layers = 1;
  probe_effects(*s.model, documents, {8, {}}, choices, r);
  const std::vector<int64_t> load = choices.load(choices.layers().at(0));
  int64_t slots = 0;
  ASSERT_EQ(r.skipped_experts.size(), 8U);
  for (const Effect& e : r.skipped_experts) {
    EXPECT_EQ(e.slots, load.at(static_cast<size_t>(e.expert))) << e.expert;
    slots += e.slots;
  }
  EXPECT_EQ(slots, 2 * documents.total_tokens());
}

TEST(Effects, NoInterventionIsTheIntactModelToTheBit) {
  ProbeScene s(tiny_model());
  const Interventions none;
  EXPECT_EQ(loss_of(s, &none), loss_of(s));
}

TEST(Effects, GivenChoicesTakeThePlaceOfTheRouters) {
  ProbeScene s(tiny_model());
  const ProbeDocuments documents = s.documents(2, 2);
  const int64_t n = 2 * documents.sequence();
  const auto all_take = [&](int32_t first, int32_t second) {
    Interventions changes;
    for (int64_t layer = 0; layer < 2; ++layer)
      for (int64_t loop = 0; loop < 4; ++loop) {
        std::vector<int32_t> choice;
        for (int64_t i = 0; i < n; ++i) choice.insert(choice.end(), {first, second});
        changes.choices[{layer, loop}] = integers(choice, {n, 2});
      }
    ChoiceRecord record(s.model->config(), documents);
    document_losses(*s.model, documents, {4}, &changes, &record);
    return record.load(record.layers().at(0));
  };
  const std::vector<int64_t> load = all_take(5, 1);
  EXPECT_EQ(load[5], 4 * documents.total_tokens());
  EXPECT_EQ(load[1], 4 * documents.total_tokens());
  EXPECT_EQ(load[0], 0);
}

TEST(Effects, ExpertsOfADenseCoreAreRefused) {
  ProbeScene s(plain_dense());
  EXPECT_THROW(effects_of(s, {1, {}}), UsageError);
}

}  // namespace
}  // namespace heddle
