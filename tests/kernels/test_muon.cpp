// What Muon does to a matrix besides products.
#include <fmt/format.h>

#include <cmath>

#include "kernels/kernel_case.h"

namespace heddle::test {
namespace {

std::vector<KernelCase> muon_cases() {
  struct Size {
    int64_t rows, columns;
  };
  std::vector<KernelCase> cases;
  for (const Size size :
       {Size{0, 5}, {5, 0}, {1, 1}, {1, 33}, {33, 1}, {31, 65}, {65, 31}, {129, 700}, {700, 129}, {3, 2101}}) {
    const auto [rows, columns] = size;
    const int64_t count = rows * columns, longer = std::max(rows, columns);
    cases.push_back({fmt::format("direction_{}x{}", rows, columns), [=](const Kernels& kernels) {
                       Array<float> x = normal(count, 1), second = normal(longer, 2), mean_square = blank(longer);
                       for (float& s : second) s *= s;
                       kernels.normalise_rows(rows, columns, 1e-7F, x.data());
                       const Array<float> unit_rows = x;
                       kernels.reduce_variance(rows, columns, 0.9F, x.data(), second.data(), mean_square.data());
                       return std::vector<Result>{result("rows", unit_rows), result("even", x), result("S", second)};
                     }});
    for (const bool cautious : {false, true}) {
      const char* const name = cautious ? "cautious" : "update";
      cases.push_back(
          {fmt::format("{}_{}x{}", name, rows, columns), [=](const Kernels& kernels) {
             const int64_t leading = columns + 3;  // the last three columns are another's
             const Array<float> x = normal(count, 1);
             Array<float> parameter = normal(rows * leading, 2), copy = blank(count);
             kernels.muon_update(rows, columns, {0.02F, 0.5F, cautious}, x.data(), parameter.data(), leading);
             kernels.copy_matrix(rows, columns, parameter.data(), leading, copy.data(), columns);
             return std::vector<Result>{result("parameter", parameter), result("copy", copy)};
           }});
    }
  }
  return cases;
}

HEDDLE_KERNEL_CASES(Muon, muon_cases());
HEDDLE_EACH_DEVICE(MuonTest);

TEST_P(MuonTest, CopiesBetweenLeadingDimensions) {
  const Array<float> from = {1, 2, 3, 4, 5, 6, 7, 8};
  Array<float> to(6, 0.0F);
  GetParam()->copy_matrix(2, 2, from.data() + 1, 4, to.data(), 3);
  EXPECT_EQ(to, (Array<float>{2, 3, 0, 6, 7, 0}));
}

TEST_P(MuonTest, NormalisesRowsByHand) {
  Array<float> x = {3, 4, 0, 0, 0.3F, -0.4F};
  GetParam()->normalise_rows(3, 2, 1, x.data());  // norms 5, 0, 0.5 against a floor of 1
  expect_near(x, {0.6, 0.8, 0, 0, 0.3, -0.4}, 1e-7);
}

TEST_P(MuonTest, ReducesVarianceOfRowsByHand) {
  // v = (3^2 + 1)/2, 0 and (1 + 7^2)/2; S = 0.5 S + 0.5 v = 4, 0.25, 25; s = 1/2, 2, 1/5.
  Array<float> x = {3, -1, 0, 0, 1, 7}, second = {3, 0.5F, 25}, mean_square = blank(3);
  GetParam()->reduce_variance(3, 2, 0.5F, x.data(), second.data(), mean_square.data());
  expect_near(second, {4, 0.25, 25}, 1e-6);
  const double keep = std::sqrt(60.0 / (10.0 / 4 + 50.0 / 25));
  expect_near(x, {1.5 * keep, -0.5 * keep, 0, 0, 0.2 * keep, 1.4 * keep}, 1e-5);
}

TEST_P(MuonTest, ReducesVarianceOfColumnsOfAWideMatrixByHand) {
  Array<float> x = {3, 0, 1, -1, 0, 7}, second = {3, 0.5F, 25}, mean_square = blank(3);
  GetParam()->reduce_variance(2, 3, 0.5F, x.data(), second.data(), mean_square.data());
  expect_near(second, {4, 0.25, 25}, 1e-6);
  const double keep = std::sqrt(60.0 / (10.0 / 4 + 50.0 / 25));
  expect_near(x, {1.5 * keep, 0, 0.2 * keep, -0.5 * keep, 0, 1.4 * keep}, 1e-5);
}

TEST_P(MuonTest, ReducesNoVarianceWhereThereIsNone) {
  Array<float> x(6, 0.0F), second(3, 0.0F), mean_square = blank(3);
  GetParam()->reduce_variance(2, 3, 0.9F, x.data(), second.data(), mean_square.data());
  EXPECT_EQ(x, Array<float>(6, 0.0F));
  EXPECT_EQ(second, Array<float>(3, 0.0F));
}

TEST_P(MuonTest, UpdatesByHand) {
  const Array<float> x = {1, -1, 2, 0};
  Array<float> plain = {10, 20, 30, 40}, cautious = plain;
  GetParam()->muon_update(2, 2, {0.5F, 0.2F, false}, x.data(), plain.data(), 2);
  expect_near(plain, {9 - 0.5, 18 + 0.5, 27 - 1, 36}, 1e-5);
  GetParam()->muon_update(2, 2, {0.5F, 0.2F, true}, x.data(), cautious.data(), 2);
  expect_near(cautious, {9 - 0.5, 20 + 0.5, 27 - 1, 36}, 1e-5);
}

}  // namespace
}  // namespace heddle::test
