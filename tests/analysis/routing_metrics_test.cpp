#include "analysis/routing_metrics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace heddle {

using Load = std::vector<double>;

TEST(RoutingMetrics, OneExpertTakesAll) {
  const Load load{0, 0, 0, 64, 0, 0, 0, 0};
  EXPECT_EQ(normalised_entropy(load), 0);
  EXPECT_EQ(largest_share(load), 1);
  EXPECT_EQ(dead_experts(load), 7);
}

TEST(RoutingMetrics, UniformLoads) {
  const Load load(30, 17);
  EXPECT_NEAR(normalised_entropy(load), 1, 1e-12);
  EXPECT_NEAR(largest_share(load), 1.0 / 30, 1e-12);
  EXPECT_EQ(dead_experts(load), 0);
  // 6 of 30: a random choice shares 1.2 of 6 experts with another one.
  EXPECT_NEAR(chance_overlap(load, load, 6), 0.2, 1e-12);
}

TEST(RoutingMetrics, HalfOfTheExpertsShareAllSlots) {
  const Load load{5, 0, 5, 0, 5, 0, 5, 0};
  EXPECT_NEAR(normalised_entropy(load), 2.0 / 3.0, 1e-12);  // ln 4 / ln 8
  EXPECT_EQ(largest_share(load), 0.25);
  EXPECT_EQ(dead_experts(load), 4);
}

TEST(RoutingMetrics, UnevenLoadsByHand) {
  const Load load{1, 3};
  EXPECT_NEAR(normalised_entropy(load), -(0.25 * std::log2(0.25) + 0.75 * std::log2(0.75)), 1e-12);
  // Expert 0 is in both choices with 1/4 * 2/4, expert 1 with 3/4 * 2/4.
  EXPECT_NEAR(chance_overlap(load, Load{2, 2}, 1), 0.5, 1e-12);
  EXPECT_NEAR(chance_overlap(load, load, 1), 1.0 / 16 + 9.0 / 16, 1e-12);
}

TEST(RoutingMetrics, ChoicesThatNeverOrAlwaysMeet) {
  EXPECT_EQ(chance_overlap(Load{4, 0, 4, 0}, Load{0, 4, 0, 4}, 2), 0);
  EXPECT_NEAR(chance_overlap(Load{4, 0, 4, 0}, Load{4, 0, 4, 0}, 2), 1, 1e-12);
}

TEST(RoutingMetrics, NothingToMeasureIsZero) {
  const Load none(8, 0), single{5};
  EXPECT_EQ(normalised_entropy(none), 0);
  EXPECT_EQ(largest_share(none), 0);
  EXPECT_EQ(dead_experts(none), 8);
  EXPECT_EQ(chance_overlap(none, Load(8, 1), 2), 0);
  EXPECT_EQ(normalised_entropy(single), 0);
  EXPECT_EQ(largest_share(single), 1);
  EXPECT_EQ(normalised_entropy(Load{}), 0);
}

TEST(RoutingMetrics, DistinctExpertsByChance) {
  // 30 choose 6: 6, 10.8, 14.64, ...
  const std::vector<double> distinct = chance_distinct(30, 6, 9);
  const double expected[] = {6, 10.8, 14.64, 17.712, 20.1696, 22.13568, 23.708544, 24.9668352, 25.97346816};
  ASSERT_EQ(distinct.size(), 9u);
  for (size_t t = 0; t < 9; ++t) EXPECT_NEAR(distinct[t], expected[t], 1e-9);
  EXPECT_NEAR(chance_overlap(std::vector<double>(30, 5), std::vector<double>(30, 7), 6), 0.2, 1e-12);  // o = 1.2 of 6
}

TEST(RoutingMetrics, InformationOfExpertAndLoop) {
  EXPECT_NEAR(loop_information({{4, 4}, {8, 8}}), 0, 1e-12);
  EXPECT_NEAR(loop_information({{4, 0}, {0, 4}}), std::log(2.0), 1e-12);
  // Three slots of four on the diagonal: ln 2 - H(1/4).
  const double h = -0.25 * std::log(0.25) - 0.75 * std::log(0.75);
  EXPECT_NEAR(loop_information({{3, 1}, {1, 3}}), std::log(2.0) - h, 1e-12);
  EXPECT_EQ(loop_information({{0, 0}, {0, 0}}), 0);
  EXPECT_NEAR(loop_information({{5, 5}, {0, 0}}), 0, 1e-12);  // a loop that did not run
}

}  // namespace heddle
