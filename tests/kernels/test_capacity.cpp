// Loads of the experts, and what they keep where their capacity is exceeded.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kernels/kernel_case.h"

namespace heddle::test {
namespace {

/// Choices that differ within a token. Expert 0 gets a slot of every token if `collapsed`.
Array<int32_t> choices_of(int64_t tokens, int64_t choices, int64_t experts, bool collapsed) {
  Array<int32_t> index;
  for (int64_t n = 0; n < tokens; ++n)
    for (int64_t j = 0; j < choices; ++j)
      index.push_back(static_cast<int32_t>((collapsed ? j : n * n + 3 * n / 2 + j) % experts));
  return index;
}

/// Weights of which many are equal, also zeros of both signs.
Array<float> tied_weights(int64_t count) {
  Array<float> weights = normal(count, 1);
  for (float& w : weights) w = static_cast<float>(static_cast<int>(2 * w)) * (w < 0 ? -0.25F : 0.25F);
  for (size_t i = 0; i < weights.size(); i += 5) weights[i] = i % 2 == 0 ? 0.0F : -0.0F;
  return weights;
}

struct Size {
  int64_t tokens, choices, experts;
  bool collapsed = false;
};

const Size kSizes[] = {{0, 2, 8},    {1, 1, 1},         {31, 3, 4},         {33, 8, 255},
                       {257, 2, 33}, {300, 4, 6, true}, {1100, 1, 1, true}, {90, 6, 512}};

KernelCase capacity_case(const Size& size) {
  const auto run = [=](const Kernels& kernels) {
    const auto [tokens, choices, experts, collapsed] = size;
    const int64_t slots = tokens * choices;
    const Array<int32_t> index = choices_of(tokens, choices, experts, collapsed);
    std::vector<Result> results;
    for (const bool tied : {false, true}) {
      const Array<float> weights = tied ? tied_weights(slots) : normal(slots, 2);
      for (const int64_t capacity : {int64_t{0}, int64_t{1}, slots / experts, 2 * slots / 3, slots}) {
        Array<uint8_t> keep(static_cast<size_t>(slots), 77);
        Array<int64_t> counts(static_cast<size_t>(experts), 5), all = counts;
        kernels.keep_largest(tokens, choices, experts, capacity, index.data(), weights.data(), keep.data());
        kernels.count_choices(slots, experts, index.data(), keep.data(), counts.data());
        kernels.count_choices(slots, experts, index.data(), nullptr, all.data());
        for (size_t e = 0; e < counts.size(); ++e)
          EXPECT_EQ(counts[e] - 5, std::min(all[e] - 5, capacity)) << "expert " << e << ", capacity " << capacity;
        results.push_back(result(fmt::format("keep {} tied {}", capacity, tied), keep));
        results.push_back(result("counts", counts));
        results.push_back(result("all", all));
      }
    }
    return results;
  };
  return {fmt::format("{}x{}_E{}{}", size.tokens, size.choices, size.experts, size.collapsed ? "_collapsed" : ""), run,
          0};
}

std::vector<KernelCase> capacity_cases() {
  std::vector<KernelCase> cases;
  for (const Size& size : kSizes) cases.push_back(capacity_case(size));
  return cases;
}

HEDDLE_KERNEL_CASES(Capacity, capacity_cases());
HEDDLE_EACH_DEVICE(CapacityTest);

TEST_P(CapacityTest, CountsAddUp) {
  const Array<int32_t> index = {1, 0, 1, 2, 1};
  const Array<uint8_t> keep = {1, 0, 1, 1, 0};
  Array<int64_t> counts = {10, 20, 30, 40};
  GetParam()->count_choices(5, 4, index.data(), nullptr, counts.data());
  EXPECT_EQ(counts, (Array<int64_t>{11, 23, 31, 40}));
  GetParam()->count_choices(5, 4, index.data(), keep.data(), counts.data());
  EXPECT_EQ(counts, (Array<int64_t>{11, 25, 32, 40}));
  GetParam()->count_choices(0, 4, nullptr, nullptr, counts.data());
  EXPECT_EQ(counts, (Array<int64_t>{11, 25, 32, 40}));
  Array<int32_t> many(70001, 3);
  for (size_t i = 0; i < many.size(); i += 7) many[i] = 0;
  GetParam()->count_choices(70001, 4, many.data(), nullptr, counts.data());
  EXPECT_EQ(counts, (Array<int64_t>{11 + 10001, 25, 32, 40 + 60000}));
}

TEST_P(CapacityTest, LargestWeightsAreKeptAndTiesGoToTheLowerToken) {
  // Expert 0 has the slots 0, 2, 5, 6 and 8 (weights 3, 1, 3, 3, 4), expert 1 the others.
  const Array<int32_t> index = {0, 1, 0, 1, 1, 0, 0, 1, 0, 1};
  const Array<float> weights = {3, 0.5F, 1, 0.5F, 0.25F, 3, 3, 0.5F, 4, -1};
  Array<uint8_t> keep(10, 77);
  const auto keep_largest = [&](int64_t capacity) {
    GetParam()->keep_largest(5, 2, 2, capacity, index.data(), weights.data(), keep.data());
    return keep;
  };
  EXPECT_EQ(keep_largest(3), (Array<uint8_t>{1, 1, 0, 1, 0, 1, 0, 1, 1, 0}));
  EXPECT_EQ(keep_largest(2), (Array<uint8_t>{1, 1, 0, 1, 0, 0, 0, 0, 1, 0}));
  EXPECT_EQ(keep_largest(1), (Array<uint8_t>{0, 1, 0, 0, 0, 0, 0, 0, 1, 0}));
  EXPECT_EQ(keep_largest(4), (Array<uint8_t>{1, 1, 0, 1, 1, 1, 1, 1, 1, 0}));
  EXPECT_EQ(keep_largest(5), Array<uint8_t>(10, 1));
  EXPECT_EQ(keep_largest(0), Array<uint8_t>(10, 0));
}

TEST_P(CapacityTest, ExtremeWeightsHaveTheirOrder) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Array<int32_t> index(7, 0);
  const Array<float> weights = {-kInfinity, -0.0F, 1e-45F, 0.0F, kInfinity, -1e-45F, 3e38F};
  Array<uint8_t> keep(7, 77);
  const auto keep_largest = [&](int64_t capacity) {
    GetParam()->keep_largest(7, 1, 1, capacity, index.data(), weights.data(), keep.data());
    return keep;
  };
  EXPECT_EQ(keep_largest(2), (Array<uint8_t>{0, 0, 0, 0, 1, 0, 1}));
  EXPECT_EQ(keep_largest(3), (Array<uint8_t>{0, 0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(keep_largest(4), (Array<uint8_t>{0, 1, 1, 0, 1, 0, 1}));  // -0 and 0 are equal
  EXPECT_EQ(keep_largest(6), (Array<uint8_t>{0, 1, 1, 1, 1, 1, 1}));
}

}  // namespace
}  // namespace heddle::test
