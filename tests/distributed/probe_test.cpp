// A probe gives one answer at any number of ranks and split of the experts, to rounding, also where documents do not
// divide and some ranks have none.
#include "probe/probe.h"

#include "tests/distributed/shared_folder.h"
#include "tests/train/tiny_run.h"
#include "tests/train/tiny_training.h"

namespace heddle {
namespace {

ProbeOptions options_of(int64_t micro_batch) {
  ProbeOptions options;
  options.documents = {7, 24, micro_batch, 0};
  options.effects = {2, {1, 3, 5}};
  options.gradients = GradientDetail::kKappa;
  options.back_propagation = {BackPropagationMode::kTruncated, 3, false};
  return options;
}

void expect_near(double found, double expected, double tolerance, const std::string& what) {
  if (std::isnan(expected))
    EXPECT_TRUE(std::isnan(found)) << what;
  else
    EXPECT_NEAR(found, expected, tolerance * std::max(1.0, std::abs(expected))) << what;
}

void expect_same_effects(const std::vector<Effect>& found, const std::vector<Effect>& expected, const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  EXPECT_FALSE(expected.empty()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::string place = fmt::format("{} {}", what, i);
    EXPECT_EQ(found[i].layer, expected[i].layer) << place;
    EXPECT_EQ(found[i].expert, expected[i].expert) << place;
    EXPECT_EQ(found[i].slots, expected[i].slots) << place;
    expect_near(found[i].change.mean, expected[i].change.mean, 1e-5, place);
    expect_near(found[i].change.standard_error, expected[i].change.standard_error, 1e-5, place);
  }
}

void expect_same_gradients(const GradientProbe& found, const GradientProbe& expected) {
  ASSERT_EQ(found.matrices.size(), expected.matrices.size());
  for (size_t i = 0; i < expected.matrices.size(); ++i) {
    const MatrixGradient &a = found.matrices[i], &b = expected.matrices[i];
    EXPECT_EQ(a.loops, b.loops) << b.name;
    expect_near(a.alignment, b.alignment, 1e-4, b.name);
    EXPECT_NEAR(a.sum_norm, b.sum_norm, 1e-4 * b.sum_norm) << b.name;
  }
  ASSERT_EQ(found.kappas.size(), 5U);
  for (size_t i = 0; i < 5; ++i) {
    expect_near(found.kappas[i].kappa, expected.kappas[i].kappa, 2e-2, expected.kappas[i].group);
    for (size_t t = 0; t < 3; ++t)
      EXPECT_NEAR(found.kappas[i].read_back_norms.at(t), expected.kappas[i].read_back_norms.at(t),
                  2e-2 * expected.kappas[i].read_back_norms.at(t));
  }
  ASSERT_EQ(found.cosines.size(), 6U);
  for (size_t i = 0; i < 6; ++i) {
    expect_near(found.cosines[i].core, expected.cosines[i].core, 1e-4, "cosine");
    expect_near(found.cosines[i].all, expected.cosines[i].all, 1e-4, "cosine");
    expect_near(found.cosines[i].norm_ratio, expected.cosines[i].norm_ratio, 1e-4, "cosine");
  }
}

TEST(DistributedProbe, EqualsOneRank) {
  const SharedFolder folder;
  if (test_world().rank() == 0) write_tiny_store(folder.path("store.h5"));
  test_world().barrier();
  const TokenStore store = TokenStore::open(folder.path("store.h5"));
  TrainingPlan plan;
  plan.model.vocabulary_size = store.vocabulary_size();
  const auto single = make_single_communicator();
  Training one(plan, *single, 1, plan.global_batch);
  for (int64_t step = 1; step <= 3; ++step) one.run(step);
  const ProbeResult expected = probe(one.model, store, Part::kTrain, options_of(8));
  for (int expert_parallel = 1; expert_parallel <= test_world().size(); expert_parallel *= 2) {
    Training many(plan, test_world(), expert_parallel, 1);
    for (Parameter& p : many.model.parameters().all()) {
      const Tensor& whole = one.model.parameters().find(p.name).value;
      p.value.copy_from(p.sharing == Sharing::kExpert ? whole.rows(p.first, p.local_shape[0]) : whole);
    }
    for (int64_t l = 0; l < many.model.stored_moe_layers(); ++l)
      many.model.balance_bias(l).copy_from(one.model.balance_bias(l));
    for (const int64_t micro_batch : {1, 3}) {
      SCOPED_TRACE(fmt::format("expert parallel {}, micro-batch {}", expert_parallel, micro_batch));
      const ProbeResult found = probe(many.model, store, Part::kTrain, options_of(micro_batch));
      EXPECT_EQ(found.tokens, expected.tokens);
      expect_near(found.loss.mean, expected.loss.mean, 1e-5, "loss");
      expect_near(found.loss.standard_error, expected.loss.standard_error, 1e-5, "loss");
      expect_same_effects(found.skipped_loops, expected.skipped_loops, "loop");
      expect_same_effects(found.skipped_blocks, expected.skipped_blocks, "block");
      expect_same_effects(found.skipped_layers, expected.skipped_layers, "layer");
      expect_same_effects(found.skipped_experts, expected.skipped_experts, "expert");
      expect_same_effects(found.router_swaps, expected.router_swaps, "swap");
      expect_same_effects(found.one_router, expected.one_router, "one router");
      expect_same_effects(found.loop_counts, expected.loop_counts, "loop count");
      ASSERT_EQ(found.depth.entries.size(), 9U);
      for (size_t e = 0; e < 9; ++e)
        expect_near(found.depth.entries[e].kl.mean, expected.depth.entries[e].kl.mean, 1e-5, "KL");
      EXPECT_EQ(found.depth.effective_depth, expected.depth.effective_depth);
      ASSERT_EQ(found.information.size(), 2U);
      for (size_t l = 0; l < 2; ++l) {
        EXPECT_EQ(found.information[l].slots, expected.information[l].slots);
        expect_near(found.information[l].token.found, expected.information[l].token.found, 1e-9, "information");
        expect_near(found.information[l].loop_given_token.chance, expected.information[l].loop_given_token.chance, 1e-9,
                    "information");
      }
      expect_same_gradients(found.gradients, expected.gradients);
    }
  }
}

}  // namespace
}  // namespace heddle
