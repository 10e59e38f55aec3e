// Statistics of the choice of experts: overlaps of choices and of weights, experts met, entropy, the largest logit.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/kernel_case.h"

namespace heddle::test {
namespace {

/// Rows of different experts out of 3 * choices, in changing order.
Array<int32_t> chosen(int64_t rows, int64_t choices, int64_t shift) {
  Array<int32_t> index;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < choices; ++i) {
      const int64_t turned = (row % 2 == 0 ? i : choices - 1 - i) + shift * row;
      index.push_back(static_cast<int32_t>((turned % choices + row * shift + row % 7) % (3 * choices)));
    }
  return index;
}

/// Weights of rows of `width`, some zero, some rows all zero.
Array<float> weights(int64_t rows, int64_t width, uint32_t stream) {
  Array<float> values = normal(rows * width, stream);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < width; ++i) {
      float& value = values[static_cast<size_t>(row * width + i)];
      value = row % 11 == 10 || (row + i) % 5 == 4 ? 0 : std::abs(value);
    }
  return values;
}

KernelCase overlap_case(int64_t rows, int64_t choices) {
  const auto run = [=](const Kernels& kernels) {
    const Array<int32_t> a = chosen(rows, choices, 1), b = chosen(rows, choices, 2);
    const Array<float> of_a = weights(rows, choices, 1), of_b = weights(rows, choices, 2);
    Array<int64_t> histogram(static_cast<size_t>(choices + 1), 7);
    kernels.count_overlaps(rows, choices, a.data(), b.data(), histogram.data());
    Array<double> sum = {0.25};
    kernels.add_weight_overlap(rows, choices, a.data(), of_a.data(), b.data(), of_b.data(), sum.data());
    return std::vector<Result>{result("overlaps", histogram), result("weights", sum)};
  };
  return {fmt::format("overlaps_{}x{}", rows, choices), run, 1e-12};
}

KernelCase fresh_case(int64_t visits, int64_t rows, int64_t choices) {
  const auto run = [=](const Kernels& kernels) {
    const Array<int32_t> index = chosen(rows, choices, visits);
    Array<int32_t> earlier;
    for (int64_t visit = 0; visit < visits; ++visit)
      for (const int32_t expert : chosen(rows, choices, visit)) earlier.push_back(expert);
    Array<int64_t> fresh = {7};
    kernels.count_fresh(visits, rows, choices, earlier.data(), index.data(), fresh.data());
    return std::vector<Result>{result("fresh", fresh)};
  };
  return {fmt::format("fresh_{}x{}x{}", visits, rows, choices), run, 0};
}

KernelCase row_case(int64_t rows, int64_t width) {
  const auto run = [=](const Kernels& kernels) {
    const Array<float> w = weights(rows, width, 3), x = normal(rows * width, 4, 100);
    Array<double> entropy = {0.25};
    kernels.add_entropy(rows, width, w.data(), entropy.data());
    Array<float> maximum = {-1000};
    kernels.keep_maximum(rows * width, x.data(), maximum.data());
    return std::vector<Result>{result("entropy", entropy), result("maximum", maximum)};
  };
  return {fmt::format("rows_{}x{}", rows, width), run, 1e-12};
}

std::vector<KernelCase> cases() {
  std::vector<KernelCase> all;
  for (const int64_t rows : {0, 1, 31, 33, 257, 4096}) {
    for (const int64_t choices : {1, 2, 8, 33, 64}) {
      if (rows == 4096 && choices > 8) continue;
      all.push_back(overlap_case(rows, choices));
      for (const int64_t visits : {0, 1, 3}) all.push_back(fresh_case(visits, rows, choices));
    }
    for (const int64_t width : {1, 8, 33, 64, 100})
      if (rows < 4096 || width <= 33) all.push_back(row_case(rows, width));
  }
  all.push_back(overlap_case(33, 100));
  all.push_back(row_case(3, 16385));
  return all;
}

HEDDLE_KERNEL_CASES(ChoiceStatistics, cases());
HEDDLE_EACH_DEVICE(ChoiceStatisticsTest);

TEST_P(ChoiceStatisticsTest, OverlapsOfAllChoicesAreHypergeometric) {
  Array<int32_t> a, b;  // 4 of 10 experts in all 210 ways, against experts 5, 0, 3, 8
  for (unsigned set = 0; set < 1024; ++set) {
    if (std::popcount(set) != 4) continue;
    for (const int32_t expert : {5, 0, 3, 8}) a.push_back(expert);
    for (int32_t expert = 0; expert < 10; ++expert)
      if ((set >> expert & 1U) != 0) b.push_back(expert);
  }
  Array<int64_t> histogram = {100, 0, 0, 0, 0};
  GetParam()->count_overlaps(210, 4, a.data(), b.data(), histogram.data());
  EXPECT_EQ(histogram, (Array<int64_t>{115, 80, 90, 24, 1}));  // (4 choose c) (6 choose 4 - c)
  GetParam()->count_overlaps(0, 4, nullptr, nullptr, histogram.data());
  GetParam()->count_overlaps(3, 4, b.data(), b.data(), histogram.data());
  EXPECT_EQ(histogram, (Array<int64_t>{115, 80, 90, 24, 4}));
}

TEST_P(ChoiceStatisticsTest, ExpertsThatTokensHaveNotMet) {
  // Two tokens: the first meets 0 1, 1 2, 0 2, 3 4; the second 2 3, 2 3, 0 1, 1 3.
  const Array<int32_t> visits = {0, 1, 2, 3, 1, 2, 2, 3, 0, 2, 0, 1, 3, 4, 1, 3};
  const std::vector<int64_t> expected = {4, 1, 2, 2};
  for (size_t visit = 0; visit < 4; ++visit) {
    Array<int64_t> fresh = {10};
    GetParam()->count_fresh(static_cast<int64_t>(visit), 2, 2, visit == 0 ? nullptr : visits.data(),
                            visits.data() + 4 * visit, fresh.data());
    EXPECT_EQ(fresh[0], 10 + expected[visit]) << "visit " << visit;
  }
  Array<int64_t> fresh = {10};
  GetParam()->count_fresh(3, 0, 2, nullptr, nullptr, fresh.data());
  EXPECT_EQ(fresh[0], 10);
}

TEST_P(ChoiceStatisticsTest, Entropy) {
  const Array<float> w = {0.5F, 0, 0.5F, /**/ 0, 0, 0, /**/ 0, 7, 0, /**/ 3, 1, 0, /**/ 0.2F, 0.2F, 0.2F};
  const std::vector<double> expected = {std::log(2), 0, 0, 0.5623351446188083, std::log(3)};
  for (size_t row = 0; row < expected.size(); ++row) {
    Array<double> sum = {1};
    GetParam()->add_entropy(1, 3, w.data() + 3 * row, sum.data());
    EXPECT_NEAR(sum[0], 1 + expected[row], 1e-15) << "row " << row;
  }
  Array<double> sum = {1};
  GetParam()->add_entropy(5, 3, w.data(), sum.data());
  EXPECT_NEAR(sum[0], 1 + std::log(2) + 0.5623351446188083 + std::log(3), 1e-15);
  GetParam()->add_entropy(0, 3, nullptr, sum.data());
  const Array<float> broken = {1, std::numeric_limits<float>::quiet_NaN(), 0};
  GetParam()->add_entropy(1, 3, broken.data(), sum.data());
  EXPECT_TRUE(std::isnan(sum[0]));
}

TEST_P(ChoiceStatisticsTest, WeightOverlap) {
  const Array<int32_t> a = {0, 1, 2, 5, 0, 1, 0, 1, 3, 4, 3, 4}, b = {1, 0, 7, 3, 1, 2, 0, 1, 3, 4, 4, 3};
  const Array<float> of_a = {1, 3, 1, 1, 1, 1, 3, 1, 0, 0, 1, 1}, of_b = {6, 2, 1, 1, 1, 1, 1, 3, 1, 1, 0, 0};
  // The same mixture in another order; other experts; half of each; crossed weights; no weight in a; none in b.
  const std::vector<double> expected = {1, 0, 0.5, 0.5, 0, 0};
  for (size_t row = 0; row < expected.size(); ++row) {
    Array<double> sum = {10};
    GetParam()->add_weight_overlap(1, 2, a.data() + 2 * row, of_a.data() + 2 * row, b.data() + 2 * row,
                                   of_b.data() + 2 * row, sum.data());
    EXPECT_EQ(sum[0], 10 + expected[row]) << "row " << row;
  }
  Array<double> sum = {10};
  GetParam()->add_weight_overlap(6, 2, a.data(), of_a.data(), b.data(), of_b.data(), sum.data());
  EXPECT_EQ(sum[0], 12);
  GetParam()->add_weight_overlap(0, 2, nullptr, nullptr, nullptr, nullptr, sum.data());
  EXPECT_EQ(sum[0], 12);
}

TEST_P(ChoiceStatisticsTest, NotANumberIsTheMaximum) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  const auto largest = [](const Array<float>& x, float before) {
    Array<float> maximum = {before};
    GetParam()->keep_maximum(static_cast<int64_t>(x.size()), x.data(), maximum.data());
    return maximum[0];
  };
  EXPECT_EQ(largest({-3, -1, -2}, -kInfinity), -1);
  EXPECT_EQ(largest({-3, 4, -2}, 5), 5);
  EXPECT_EQ(largest({-3, -1, -2}, 0), 0);
  EXPECT_EQ(largest({-3, kInfinity, -2}, 0), kInfinity);
  EXPECT_EQ(largest({-kInfinity}, -kInfinity), -kInfinity);
  EXPECT_EQ(largest({}, 5), 5);
  EXPECT_TRUE(std::isnan(largest({1, 2}, kNaN)));
  EXPECT_TRUE(std::isnan(largest({1, 2}, -kNaN)));
  EXPECT_TRUE(std::isnan(largest({kInfinity, kNaN, 2}, 5)));
  EXPECT_TRUE(std::isnan(largest({-kNaN, kInfinity}, 5)));
  Array<float> many(70001, 1);
  many.back() = 2;
  EXPECT_EQ(largest(many, 0), 2);
  many.back() = -kNaN;
  EXPECT_TRUE(std::isnan(largest(many, kInfinity)));
}

}  // namespace
}  // namespace heddle::test
