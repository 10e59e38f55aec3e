// Sums of statistics, which stay where the tensors are: of squares, and of how rows of states compare.
#include <fmt/format.h>

#include <cmath>

#include "kernels/kernel_case.h"

namespace heddle::test {
namespace {

KernelCase squares_case(int64_t rows, int64_t choices) {
  const auto run = [=](const Kernels& kernels) {
    const int64_t count = rows * choices;
    const Array<float> x = normal(count, 1);
    Array<float> inverse;
    for (int64_t row = 0; row < rows; ++row) inverse.push_back(0.5F + static_cast<float>(row % 7));
    Array<double> sum = {0.25}, means = {-1};
    kernels.add_squares(count, 0.125, x.data(), sum.data());
    kernels.add_mean_squares(rows, 1e-5, inverse.data(), means.data());
    const Array<double> doubles(x.begin(), x.end());
    Array<double> plain = {0.5};
    kernels.add_doubles(count, doubles.data(), plain.data());
    return std::vector<Result>{{"squares", {sum[0]}}, {"mean squares", {means[0]}}, {"sum", {plain[0]}}};
  };
  return {fmt::format("squares_{}x{}", rows, choices), run, 1e-12};
}

/// Rows of states, some of zeros.
Array<float> states(int64_t rows, int64_t width, uint32_t stream) {
  Array<float> x = normal(rows * width, stream);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t d = 0; d < width; ++d) {
      float& value = x[static_cast<size_t>(row * width + d)];
      value = row % 9 == 6 + stream % 2 ? 0 : value + 0.5F;
    }
  return x;
}

KernelCase states_case(int64_t rows, int64_t width) {
  const auto run = [=](const Kernels& kernels) {
    const Array<float> a = states(rows, width, 1), b = states(rows, width, 2);
    Array<double> sums = {1, 2, 3, 4}, units(static_cast<size_t>(width), 0.5);
    kernels.add_comparison(rows, width, a.data(), b.data(), sums.data());
    kernels.add_unit_rows(rows, width, a.data(), units.data());
    std::vector<Result> results = {result("units", units)};
    for (const double sum : sums) results.push_back({"comparison", {sum}});
    return results;
  };
  return {fmt::format("states_{}x{}", rows, width), run, 1e-12};
}

std::vector<KernelCase> cases() {
  std::vector<KernelCase> all;
  for (const int64_t rows : {0, 1, 31, 33, 257, 4096}) {
    for (const int64_t choices : {1, 2, 8, 33}) all.push_back(squares_case(rows, choices));
    for (const int64_t width : {1, 7, 64, 257})
      if (rows < 4096 || width == 7) all.push_back(states_case(rows, width));
  }
  all.push_back(states_case(4096, 64));
  all.push_back(states_case(1, 16389));
  all.push_back(states_case(6, 16384));
  return all;
}

HEDDLE_KERNEL_CASES(Statistics, cases());
HEDDLE_EACH_DEVICE(StatisticsTest);

TEST_P(StatisticsTest, SumsOfSquares) {
  const Array<float> x = {1, -2, 3}, inverse = {0.5F, 0.25F};
  Array<double> sum = {1};
  GetParam()->add_squares(3, 0.5, x.data(), sum.data());
  EXPECT_EQ(sum, (Array<double>{8}));
  GetParam()->add_mean_squares(2, 1, inverse.data(), sum.data());
  EXPECT_EQ(sum, (Array<double>{26}));
  const Array<double> all = {2, -5, 0.5};
  GetParam()->add_doubles(3, all.data(), sum.data());
  EXPECT_EQ(sum, (Array<double>{23.5}));
  GetParam()->add_doubles(0, nullptr, sum.data());
  GetParam()->add_squares(0, 1, nullptr, sum.data());
  GetParam()->add_mean_squares(0, 1, nullptr, sum.data());
  EXPECT_EQ(sum, (Array<double>{23.5}));
}

void check_comparison(const Kernels& kernels) {
  // Orthogonal; equal; opposite and of another length; a zero row on either side.
  const Array<float> a = {1, 0, /**/ 3, 4, /**/ 1, 1, /**/ 0, 0, /**/ 2, 0};
  const Array<float> b = {0, 2, /**/ 3, 4, /**/ -2, -2, /**/ 1, 0, /**/ 0, 0};
  const std::vector<Array<double>> expected = {
      {1, 4, 5, 0}, {25, 25, 0, 1}, {2, 8, 18, -1}, {0, 1, 1, 0}, {4, 0, 4, 0}};
  Array<double> all = {100, 200, 300, 400};
  for (size_t row = 0; row < expected.size(); ++row) {
    Array<double> sums = {0, 0, 0, 0};
    kernels.add_comparison(1, 2, a.data() + 2 * row, b.data() + 2 * row, sums.data());
    EXPECT_EQ(sums, expected[row]) << "row " << row;
  }
  kernels.add_comparison(5, 2, a.data(), b.data(), all.data());
  EXPECT_EQ(all, (Array<double>{132, 238, 328, 400}));
  kernels.add_comparison(0, 2, nullptr, nullptr, all.data());
  EXPECT_EQ(all, (Array<double>{132, 238, 328, 400}));
}

/// Mean cosine of all pairs of rows of x.
double mean_cosine(const Kernels& kernels, int64_t rows, int64_t width, const Array<float>& x) {
  Array<double> sum(static_cast<size_t>(width), 0);
  kernels.add_unit_rows(rows, width, x.data(), sum.data());
  double square = 0;
  for (const double value : sum) square += value * value;
  const auto n = static_cast<double>(rows);
  return (square - n) / (n * (n - 1));
}

void check_unit_rows(const Kernels& kernels) {
  const Array<float> x = {3, 4, /**/ 0, 0, /**/ 0, -2, /**/ 8, 6};
  Array<double> sum = {10, 20};
  kernels.add_unit_rows(4, 2, x.data(), sum.data());
  EXPECT_NEAR(sum[0], 11.4, 1e-14);
  EXPECT_NEAR(sum[1], 20.4, 1e-14);
  kernels.add_unit_rows(0, 2, nullptr, sum.data());
  EXPECT_NEAR(sum[0], 11.4, 1e-14);

  Array<float> orthogonal(37 * 37, 0), equal;
  for (size_t row = 0; row < 37; ++row) {
    orthogonal[row * 37 + row] = static_cast<float>(row + 1);
    for (const float value : {1.0F, -2.0F, 2.0F}) equal.push_back(value * static_cast<float>(row + 1));
  }
  EXPECT_NEAR(mean_cosine(kernels, 37, 37, orthogonal), 0, 1e-14);
  EXPECT_NEAR(mean_cosine(kernels, 37, 3, equal), 1, 1e-14);
  EXPECT_NEAR(mean_cosine(kernels, 2, 2, {1, 0, 1, 1}), std::sqrt(0.5), 1e-14);
}

TEST_P(StatisticsTest, Comparison) {
  check_comparison(*GetParam());
}
TEST_P(StatisticsTest, UnitRows) {
  check_unit_rows(*GetParam());
}
TEST(StatisticsInBfloat16, OfStates) {
  for (const Kernels* kernels : narrow_devices()) {
    check_comparison(*kernels);
    check_unit_rows(*kernels);
  }
}

}  // namespace
}  // namespace heddle::test
