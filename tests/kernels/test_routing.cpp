// Choice of experts, their mixing weights, and their shares.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "kernels/kernel_case.h"

namespace heddle::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Scores as the router makes them, in (0, 1), some of them equal.
Array<float> router_scores(int64_t count, uint32_t stream) {
  Array<float> scores = normal(count, stream);
  for (float& s : scores) s = std::round(64 / (1 + std::exp(-s))) / 64 + 1.0F / 128;
  return scores;
}

KernelCase routing_case(int64_t rows, int64_t experts, int64_t k, bool renormalise, bool with_keep, bool accumulate) {
  const auto run = [=](const Kernels& kernels) {
    const Array<float> scores = router_scores(rows * experts, 1), bias = normal(experts, 2, 0.1);
    const Array<float> dweights = normal(rows * k, 3);
    Array<int32_t> index(static_cast<size_t>(rows * k), -1), unbiased = index;
    kernels.top_k(rows, experts, k, scores.data(), bias.data(), index.data());
    kernels.top_k(rows, experts, k, scores.data(), nullptr, unbiased.data());
    Array<uint8_t> keep;
    for (int64_t i = 0; i < rows * k; ++i) keep.push_back(i % 3 != 0 && i / k % 5 != 0 ? 1 : 0);  // whole rows too
    const uint8_t* const flags = with_keep ? keep.data() : nullptr;
    Array<float> weights = blank(rows * k), dscores = destination(rows * experts, accumulate, 4);
    kernels.route_weights_forward(rows, experts, k, renormalise, scores.data(), index.data(), flags, weights.data());
    kernels.route_weights_backward(rows, experts, k, renormalise, scores.data(), index.data(), flags, dweights.data(),
                                   {dscores.data(), accumulate});
    kernels.route_weights_backward(rows, experts, k, renormalise, scores.data(), index.data(), flags, dweights.data(),
                                   {});
    return std::vector<Result>{result("index", index), result("unbiased", unbiased), result("weights", weights),
                               result("dscores", dscores)};
  };
  return {fmt::format("{}x{}_k{}{}{}_{}", rows, experts, k, renormalise ? "_renormalised" : "",
                      with_keep ? "_keep" : "", accumulate ? "add" : "overwrite"),
          run, 2e-6, true, 0.5};
}

KernelCase expert_share_case(int64_t rows, int64_t experts, bool accumulate) {
  const auto run = [=](const Kernels& kernels) {
    const Array<float> scores = router_scores(rows * experts, 1), dshare = normal(experts, 2);
    Array<float> share = blank(experts), dscores = destination(rows * experts, accumulate, 3);
    kernels.expert_share_forward(rows, experts, scores.data(), share.data());
    kernels.expert_share_backward(rows, experts, scores.data(), dshare.data(), {dscores.data(), accumulate});
    kernels.expert_share_backward(rows, experts, scores.data(), dshare.data(), {});
    return std::vector<Result>{result("share", share), result("dscores", dscores)};
  };
  return {fmt::format("share_{}x{}_{}", rows, experts, accumulate ? "add" : "overwrite"), run, 2e-6, true,
          experts == 1 ? 0.5 : 0};
}

std::vector<KernelCase> routing_cases() {
  struct Size {
    int64_t rows, experts, k;
  };
  std::vector<KernelCase> cases;
  for (const Size& s :
       {Size{0, 8, 2}, Size{1, 1, 1}, Size{31, 33, 6}, Size{33, 31, 31}, Size{257, 8, 2}, Size{515, 257, 6}})
    for (const bool renormalise : {false, true})
      for (const bool keep : {false, true})
        for (const bool accumulate : {false, true})
          cases.push_back(routing_case(s.rows, s.experts, s.k, renormalise, keep, accumulate));
  for (const bool accumulate : {false, true})
    for (const auto& [rows, experts] : {std::pair{0, 33}, std::pair{1, 1}, std::pair{31, 33}, std::pair{257, 8},
                                        std::pair{515, 257}, std::pair{70001, 3}})
      cases.push_back(expert_share_case(rows, experts, accumulate));
  return cases;
}

HEDDLE_KERNEL_CASES(Routing, routing_cases());
HEDDLE_EACH_DEVICE(RoutingTest);

Array<int32_t> choose(const Kernels& kernels, int64_t k, const Array<float>& scores, const float* bias = nullptr) {
  Array<int32_t> index(static_cast<size_t>(k), -1);
  kernels.top_k(1, static_cast<int64_t>(scores.size()), k, scores.data(), bias, index.data());
  return index;
}

TEST_P(RoutingTest, TopKSortsByFallingValueAndLowerIndex) {
  EXPECT_EQ(choose(*GetParam(), 3, {1, 5, 3, 5, 4}), (Array<int32_t>{1, 3, 4}));
  EXPECT_EQ(choose(*GetParam(), 4, {2, 2, 2, 2}), (Array<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(choose(*GetParam(), 2, {-1, -3, -2}), (Array<int32_t>{0, 2}));
  EXPECT_EQ(choose(*GetParam(), 2, {-0.0F, 0.0F}), (Array<int32_t>{0, 1}));
  const Array<float> bias = {0, -10, 0.5F};
  EXPECT_EQ(choose(*GetParam(), 2, {1, 9, 0.75F}, bias.data()), (Array<int32_t>{2, 0}));
}

TEST_P(RoutingTest, TheLastExpertMayWin) {
  for (const int64_t experts : {31, 32, 33, 255, 256, 257, 512, 1024, 2000}) {
    const int64_t k = std::min<int64_t>(experts, 33);
    Array<float> scores(static_cast<size_t>(experts), 0.25F);
    scores.back() = 0.5F;
    Array<int32_t> expected = {static_cast<int32_t>(experts - 1)};
    for (int32_t e = 0; e + 1 < k; ++e) expected.push_back(e);
    EXPECT_EQ(choose(*GetParam(), k, scores), expected) << experts << " experts";
    if (k < experts) {
      scores.front() = kNan;
      for (size_t j = 1; j < expected.size(); ++j) ++expected[j];
      EXPECT_EQ(choose(*GetParam(), k, scores), expected) << experts << " experts, the first without a number";
    }
  }
}

TEST_P(RoutingTest, EqualScoresGoByIndexHoweverMany) {
  // On a GPU a lane owns every 32nd expert: here each gives away four of its equals.
  Array<int32_t> expected;
  for (int32_t e = 0; e < 128; ++e) expected.push_back(e);
  EXPECT_EQ(choose(*GetParam(), 128, Array<float>(200, 0.25F)), expected);
}

TEST_P(RoutingTest, NanSortsBelowEveryNumber) {
  EXPECT_EQ(choose(*GetParam(), 4, {kNan, 1, -kInfinity, kInfinity}), (Array<int32_t>{3, 1, 2, 0}));
  EXPECT_EQ(choose(*GetParam(), 3, {kNan, -kNan, -kInfinity}), (Array<int32_t>{2, 0, 1}));
  const Array<float> bias = {kNan, 0, 0};  // only the sum is a NaN
  EXPECT_EQ(choose(*GetParam(), 3, {1, -kInfinity, 2}, bias.data()), (Array<int32_t>{2, 1, 0}));
}

TEST_P(RoutingTest, WeightsByHand) {
  const Array<float> scores = {0.5F, 0.25F, 0.125F, 1};
  const Array<int32_t> index = {3, 0, 1};
  Array<float> weights = blank(3);
  const auto route = [&](bool renormalise, const Array<uint8_t>& keep) {
    GetParam()->route_weights_forward(1, 4, 3, renormalise, scores.data(), index.data(),
                                      keep.empty() ? nullptr : keep.data(), weights.data());
  };
  route(false, {});
  expect_near(weights, {1, 0.5, 0.25}, 0);
  route(true, {});
  expect_near(weights, {4.0 / 7, 2.0 / 7, 1.0 / 7}, 1e-7);
  route(true, {0, 1, 1});
  expect_near(weights, {0, 2.0 / 3, 1.0 / 3}, 1e-7);
  route(true, {0, 0, 0});
  expect_near(weights, {0, 0, 0}, 0);
}

TEST_P(RoutingTest, VanishingScoresAreBounded) {
  const Array<float> scores = {0, 0, 1e-12F};
  const Array<int32_t> index = {2, 0};
  const Array<float> dweights = {1, 1};
  Array<float> weights = blank(2), dscores = blank(3);
  GetParam()->route_weights_forward(1, 3, 2, true, scores.data(), index.data(), nullptr, weights.data());
  expect_near(weights, {1e-3, 0}, 1e-8);
  GetParam()->route_weights_backward(1, 3, 2, true, scores.data(), index.data(), nullptr, dweights.data(),
                                     {dscores.data(), false});
  expect_near(dscores, {1e9, 0, 1e9}, 1e3);
}

TEST_P(RoutingTest, SharesByHand) {
  const Array<float> scores = {1, 3, 0.5F, 0.5F, 0, 0}, dshare = {1, 5};
  Array<float> share = blank(2), dscores = blank(6);
  GetParam()->expert_share_forward(3, 2, scores.data(), share.data());
  EXPECT_EQ(share, (Array<float>{0.75F, 1.25F}));  // the last row has no scores to divide
  GetParam()->expert_share_forward(0, 2, scores.data(), share.data());
  EXPECT_EQ(share, (Array<float>{0, 0}));
  GetParam()->expert_share_backward(2, 2, scores.data(), dshare.data(), {dscores.data(), false});
  expect_near({dscores.begin(), dscores.begin() + 4}, {-0.75, 0.25, -2, 2}, 1e-7);  // means 4 and 3
}

TEST_P(RoutingTest, ShareGradientMatchesDifferences) {
  constexpr int64_t kRows = 6, kExperts = 7;
  Array<float> scores = normal(kRows * kExperts, 1, 0.05), share = blank(kExperts), dscores = blank(kRows * kExperts);
  for (float& s : scores) s += 0.5F;
  const Array<float> dshare = normal(kExperts, 2);
  GetParam()->expert_share_backward(kRows, kExperts, scores.data(), dshare.data(), {dscores.data(), false});
  expect_gradient("scores", scores, dscores, [&] {
    GetParam()->expert_share_forward(kRows, kExperts, scores.data(), share.data());
    return weighted_sum(dshare, share);
  });
}

TEST_P(RoutingTest, GradientsMatchDifferences) {
  constexpr int64_t kRows = 6, kExperts = 7, kChosen = 3;
  Array<float> scores = normal(kRows * kExperts, 1, 0.05);
  for (float& s : scores) s += 0.5F;
  const Array<float> dweights = normal(kRows * kChosen, 2);
  Array<int32_t> index(kRows * kChosen);
  GetParam()->top_k(kRows, kExperts, kChosen, scores.data(), nullptr, index.data());
  const Array<uint8_t> keep = {1, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1};
  for (const bool renormalise : {false, true}) {
    for (const uint8_t* const flags : {static_cast<const uint8_t*>(nullptr), keep.data()}) {
      Array<float> weights = blank(kRows * kChosen), dscores = blank(kRows * kExperts);
      GetParam()->route_weights_backward(kRows, kExperts, kChosen, renormalise, scores.data(), index.data(), flags,
                                         dweights.data(), {dscores.data(), false});
      expect_gradient(fmt::format("scores, renormalise {}, keep {}", renormalise, flags != nullptr), scores, dscores,
                      [&] {
                        GetParam()->route_weights_forward(kRows, kExperts, kChosen, renormalise, scores.data(),
                                                          index.data(), flags, weights.data());
                        return weighted_sum(dweights, weights);
                      });
    }
  }
}

}  // namespace
}  // namespace heddle::test
