// A training on several ranks held against one rank: choices equal, then losses, gradients, norms and weights to 1e-5.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "tests/distributed/choices.h"
#include "tests/distributed/world.h"

namespace heddle {

inline constexpr double kTolerance = 1e-5;

inline void expect_near(double found, double expected, const char* what, int64_t step, double tolerance) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(found)) << what << " of step " << step;  // a piece or loop that the step does not have
    return;
  }
  EXPECT_LE(std::abs(found - expected), tolerance * std::abs(expected))
      << what << " of step " << step << ": " << found << " against " << expected;
}

/// The part of a global tensor of the reference that `p` holds.
inline Tensor same_part(const Parameter& p, const Tensor& global) {
  return global.flat(p.global_offset(), {p.value.count()});
}

inline double error_of(const Tensor& found, const Tensor& expected) {
  return relative_error(found.get<float>(), expected.get<float>());
}

inline void expect_same_tensors(Training& found, Training& expected, int64_t step, double tolerance) {
  for (const Parameter& p : found.model.parameters().all()) {
    const Parameter& reference = expected.model.parameters().find(p.name);
    ASSERT_EQ(p.has_gradient, reference.has_gradient) << p.name;
    if (p.has_gradient) {
      // With ZeRO this rank has the sums of the elements that it owns.
      const ArenaRange owned = found.optimizer.shards().owned(p);
      const auto part = [&](const Tensor& all) { return all.flat(owned.first, {owned.count}); };
      EXPECT_LE(error_of(part(p.gradient), part(same_part(p, reference.gradient))), tolerance)
          << "gradient of " << p.name << " in step " << step;
    }
    EXPECT_LE(error_of(p.value, same_part(p, reference.value)), tolerance)
        << "weights " << p.name << " after step " << step;
  }
  for (int64_t l = 0; l < found.model.stored_moe_layers(); ++l)
    EXPECT_EQ(error_of(found.model.balance_bias(l), expected.model.balance_bias(l)), 0);
}

/// What is counted is equal, what is summed is near.
inline void expect_same_look(const StatisticsRecord& found, const StatisticsRecord& expected, int64_t step,
                             double tolerance) {
  using Member = std::vector<double> StatisticsRecord::*;
  const auto compare = [&](Member member, const char* what, double allowed) {
    ASSERT_EQ((found.*member).size(), (expected.*member).size()) << what;
    for (size_t i = 0; i < (expected.*member).size(); ++i) {
      const double a = (found.*member)[i], b = (expected.*member)[i];
      ASSERT_EQ(std::isnan(a), std::isnan(b)) << what << " " << i << " of step " << step;
      if (std::isnan(b)) continue;
      ASSERT_NEAR(a, b, allowed * std::max(1.0, std::abs(b))) << what << " " << i << ", step " << step;
    }
  };
  for (const auto& [member, what] : {std::pair<Member, const char*>{&StatisticsRecord::flipped, "flipped"},
                                     {&StatisticsRecord::distinct, "distinct"},
                                     {&StatisticsRecord::router_agreement, "router agreement"},
                                     {&StatisticsRecord::state_agreement, "state agreement"},
                                     {&StatisticsRecord::pair_overlap, "overlap"},
                                     {&StatisticsRecord::pair_jaccard, "jaccard"}})
    compare(member, what, 0);
  for (const auto& [member, what] : {std::pair<Member, const char*>{&StatisticsRecord::router_z, "router z"},
                                     {&StatisticsRecord::router_logit_max, "largest logit"},
                                     {&StatisticsRecord::token_entropy, "token entropy"},
                                     {&StatisticsRecord::weight_overlap, "weight overlap"},
                                     {&StatisticsRecord::router_cosine, "router cosine"},
                                     {&StatisticsRecord::update_rms, "update"},
                                     {&StatisticsRecord::relative_update, "relative update"},
                                     {&StatisticsRecord::cosine_back, "cosine back"},
                                     {&StatisticsRecord::cosine_embedding, "cosine to the embedding"},
                                     {&StatisticsRecord::token_cosine, "token cosine"},
                                     {&StatisticsRecord::attention_rms, "attention"},
                                     {&StatisticsRecord::feed_forward_rms, "feed-forward"},
                                     {&StatisticsRecord::carry_rms, "carry"}})
    compare(member, what, tolerance);
}

/// One step of the reference and of each of the others, which start from equal states.
inline void expect_same_step(const std::vector<Training*>& all_found, Training& expected, int64_t step,
                             double tolerance = kTolerance) {
  expected.prepare(step);
  for (Training* const found : all_found) found->prepare(step);
  const Choices theirs(expected, step);
  ASSERT_GE(theirs.smallest_gap(), 1e-6F) << "two experts are too close in step " << step << " to compare layouts";
  ASSERT_GE(theirs.smallest_capacity_gap(), 1e-6F)
      << "two slots are too close to an expert's capacity in step " << step << " to compare layouts";
  for (Training* const found : all_found) {
    const Choices mine(*found, step);
    for (const RowRange range : found->rows)
      for (int64_t row = range.first; row < range.first + range.count; ++row)
        ASSERT_EQ(mine.of_row(row), theirs.of_row(row))
            << "choices of row " << row << " in step " << step << ": " << mine.difference(theirs, row);
  }
  const StepResult reference = expected.run(step);
  for (Training* const found : all_found) {
    const StepResult result = found->run(step);
    EXPECT_EQ(result.counted_targets, reference.counted_targets);
    EXPECT_EQ(result.skipped, reference.skipped);
    EXPECT_EQ(result.loops, reference.loops);
    for (size_t s = 0; s < reference.segment_loss.size(); ++s) {
      expect_near(result.segment_loss[s], reference.segment_loss[s], "loss", step, tolerance);
      expect_near(result.cross_entropy[s], reference.cross_entropy[s], "cross-entropy", step, tolerance);
      expect_near(result.aux[s], reference.aux[s], "balance loss", step, tolerance);
      expect_near(result.router_z[s], reference.router_z[s], "router z-loss", step, tolerance);
      expect_near(result.gradient_norm[s], reference.gradient_norm[s], "gradient norm", step, tolerance);
    }
    ASSERT_EQ(result.look.has_value(), reference.look.has_value());
    if (result.look) expect_same_look(*result.look, *reference.look, step, tolerance);
    const RoutingStatistics &a = found->trainer.statistics(), &b = expected.trainer.statistics();
    EXPECT_EQ(a.loads(), b.loads());
    EXPECT_EQ(a.dropped(), b.dropped());
    for (int64_t l = 0; l < found->model.stored_moe_layers(); ++l) EXPECT_EQ(a.stored_load(l), b.stored_load(l));
    for (size_t i = 0; i < b.overlap().size(); ++i)
      EXPECT_TRUE(a.overlap()[i] == b.overlap()[i] || std::isnan(b.overlap()[i])) << "overlap " << i;
    for (size_t t = 0; t < b.state_rms().size(); ++t)
      expect_near(a.state_rms()[t], b.state_rms()[t], "state RMS", step, tolerance);
    expect_same_tensors(*found, expected, step, tolerance);
  }
}

/// Trains on all ranks and on one, at every expert_parallel that divides the ranks, with and without ZeRO.
inline void expect_same_training(TrainingPlan plan, int64_t micro_batch, int64_t reference_micro_batch) {
  plan.optimizer.zero_block = 64;  // shards that end inside of these small tensors
  plan.look = true;
  const auto single = make_single_communicator();
  Training reference(plan, *single, 1, reference_micro_batch);
  std::vector<std::unique_ptr<Training>> trainings;
  std::vector<Training*> all;
  for (int expert_parallel = 1; expert_parallel <= test_world().size(); expert_parallel *= 2) {
    plan.optimizer.zero = !plan.optimizer.zero;
    trainings.push_back(std::make_unique<Training>(plan, test_world(), expert_parallel, micro_batch));
    all.push_back(trainings.back().get());
  }
  // A failure of one rank ends the test on all: what follows is collective.
  for (int64_t step = 1; step <= plan.steps && all_ranks(test_world(), !testing::Test::HasFailure()); ++step)
    expect_same_step(all, reference, step);
}

}  // namespace heddle
