// Sums of statistics, which stay where the tensors are.
#include <fmt/format.h>

#include "kernels/kernel_case.h"

namespace heddle::test {
namespace {

/// Rows of different experts out of 3 * choices.
Array<int32_t> chosen(int64_t rows, int64_t choices, int64_t shift) {
  Array<int32_t> index;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < choices; ++i)
      index.push_back(static_cast<int32_t>((row * shift + i * (1 + shift % 2) + shift) % (3 * choices)));
  return index;
}

KernelCase statistics_case(int64_t rows, int64_t choices) {
  const auto run = [=](const Kernels& kernels) {
    const Array<int32_t> a = chosen(rows, choices, 1), b = chosen(rows, choices, 2);
    Array<int64_t> histogram(static_cast<size_t>(choices + 1), 7);
    kernels.count_overlaps(rows, choices, a.data(), b.data(), histogram.data());
    const int64_t count = rows * choices;
    const Array<float> x = normal(count, 1);
    Array<float> inverse;
    for (int64_t row = 0; row < rows; ++row) inverse.push_back(0.5F + static_cast<float>(row % 7));
    Array<double> sum = {0.25}, means = {-1};
    kernels.add_squares(count, 0.125, x.data(), sum.data());
    kernels.add_mean_squares(rows, 1e-5, inverse.data(), means.data());
    return std::vector<Result>{result("overlaps", histogram), {"squares", {sum[0]}}, {"mean squares", {means[0]}}};
  };
  return {fmt::format("{}x{}", rows, choices), run, 1e-6};
}

std::vector<KernelCase> statistics_cases() {
  std::vector<KernelCase> cases;
  for (const int64_t rows : {0, 1, 31, 33, 257, 4096})
    for (const int64_t choices : {1, 2, 8, 33}) cases.push_back(statistics_case(rows, choices));
  return cases;
}

HEDDLE_KERNEL_CASES(Statistics, statistics_cases());
HEDDLE_EACH_DEVICE(StatisticsTest);

TEST_P(StatisticsTest, HandMadeAnswers) {
  const Array<int32_t> a = {0, 1, 4, 2}, b = {1, 0, 2, 3};
  Array<int64_t> histogram = {10, 0, 20};
  GetParam()->count_overlaps(2, 2, a.data(), b.data(), histogram.data());
  EXPECT_EQ(histogram, (Array<int64_t>{10, 1, 21}));
  const Array<float> x = {1, -2, 3}, inverse = {0.5F, 0.25F};
  Array<double> sum = {1};
  GetParam()->add_squares(3, 0.5, x.data(), sum.data());
  EXPECT_EQ(sum, (Array<double>{8}));
  GetParam()->add_mean_squares(2, 1, inverse.data(), sum.data());
  EXPECT_EQ(sum, (Array<double>{26}));
  GetParam()->add_squares(0, 1, nullptr, sum.data());
  GetParam()->add_mean_squares(0, 1, nullptr, sum.data());
  GetParam()->count_overlaps(0, 2, nullptr, nullptr, histogram.data());
  EXPECT_EQ(sum, (Array<double>{26}));
  EXPECT_EQ(histogram, (Array<int64_t>{10, 1, 21}));
}

}  // namespace
}  // namespace heddle::test
