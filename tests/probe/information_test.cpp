// Mutual information of planted assignments.
#include "probe/information.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace heddle {
namespace {

/// Experts [loops][tokens * k], by expert(token id, loop, choice).
template <typename Expert>
MutualInformation planted(const std::vector<int32_t>& ids, int loops, int k, Expert expert) {
  std::vector<std::vector<int32_t>> choices(static_cast<size_t>(loops));
  for (int t = 0; t < loops; ++t)
    for (const int32_t id : ids)
      for (int i = 0; i < k; ++i) choices[static_cast<size_t>(t)].push_back(expert(id, t, i));
  std::vector<const std::vector<int32_t>*> pointers;
  for (const std::vector<int32_t>& one : choices) pointers.push_back(&one);
  return mutual_information(ids, pointers);
}

std::vector<int32_t> ids_of(int32_t different, int each) {
  std::vector<int32_t> ids;
  for (int i = 0; i < each; ++i)
    for (int32_t id = 0; id < different; ++id) ids.push_back(id);
  return ids;
}

TEST(MutualInformation, OfExpertsThatFollowTheToken) {
  const MutualInformation m = planted(ids_of(4, 50), 3, 1, [](int32_t id, int, int) { return id % 4; });
  EXPECT_EQ(m.slots, 600);
  EXPECT_NEAR(m.entropy, std::log(4), 1e-9);
  EXPECT_NEAR(m.token.found, std::log(4), 1e-9);
  EXPECT_NEAR(m.loop.found, 0, 1e-9);
  EXPECT_NEAR(m.loop_given_token.found, 0, 1e-9);
  EXPECT_LT(m.token.chance, 0.1);
  EXPECT_GT(m.token.chance, 0) << "labels that mean nothing agree a little by chance";
}

TEST(MutualInformation, OfExpertsThatFollowTheLoop) {
  const MutualInformation m = planted(ids_of(5, 40), 3, 1, [](int32_t, int loop, int) { return loop; });
  EXPECT_NEAR(m.token.found, 0, 1e-9);
  EXPECT_NEAR(m.loop.found, std::log(3), 1e-9);
  EXPECT_NEAR(m.loop_given_token.found, std::log(3), 1e-9);
  EXPECT_LT(m.loop.chance, 0.05);
  EXPECT_LT(m.loop_given_token.chance, 0.1);
}

TEST(MutualInformation, OfExpertsThatNeedTokenAndLoop) {
  // Neither alone tells anything; with the token known, the loop tells all.
  const MutualInformation m = planted(ids_of(2, 100), 2, 1, [](int32_t id, int loop, int) { return (id + loop) % 2; });
  EXPECT_NEAR(m.token.found, 0, 1e-9);
  EXPECT_NEAR(m.loop.found, 0, 1e-9);
  EXPECT_NEAR(m.loop_given_token.found, std::numbers::ln2, 1e-9);
}

TEST(MutualInformation, CountsEveryChoiceAsADraw) {
  // Two choices a token: one follows the token's half, the other never changes.
  const MutualInformation m =
      planted(ids_of(2, 10), 1, 2, [](int32_t id, int, int choice) { return choice == 0 ? id : 2; });
  EXPECT_EQ(m.slots, 40);
  EXPECT_NEAR(m.entropy, 1.5 * std::numbers::ln2, 1e-9);
  EXPECT_NEAR(m.token.found, 0.5 * std::numbers::ln2, 1e-9);
}

}  // namespace
}  // namespace heddle
