// Linear combinations and the sum of squares.
#include <fmt/format.h>

#include "kernels/kernel_case.h"

namespace heddle::test {
namespace {

KernelCase weighted_sum_case(int64_t count, int64_t terms, bool accumulate) {
  const auto run = [=](const Kernels& kernels) {
    const Array<float> all = normal(count * terms, 1), weights = normal(terms, 2), base = normal(count, 3),
                       dout = normal(count, 4);
    std::vector<ConstReals> xs;
    for (int64_t k = 0; k < terms; ++k) xs.emplace_back(all.data() + k * count);
    Array<float> sum = blank(count), onto = blank(count), in_place = base;
    kernels.weighted_sum_forward(count, terms, nullptr, weights.data(), xs.data(), sum.data());
    kernels.weighted_sum_forward(count, terms, base.data(), weights.data(), xs.data(), onto.data());
    kernels.weighted_sum_forward(count, terms, in_place.data(), weights.data(), xs.data(), in_place.data());
    EXPECT_EQ(in_place, onto);
    Array<float> dx = destination(count, accumulate, 5), dweight = destination(1, accumulate, 6), dx_alone = dx,
                 dweight_alone = dweight;
    kernels.weighted_term_backward(count, weights.data(), xs[0], dout.data(), {dx.data(), accumulate},
                                   {dweight.data(), accumulate});
    kernels.weighted_term_backward(count, weights.data(), nullptr, dout.data(), {dx_alone.data(), accumulate}, {});
    kernels.weighted_term_backward(count, nullptr, xs[0], dout.data(), {}, {dweight_alone.data(), accumulate});
    EXPECT_EQ(dx_alone, dx);
    EXPECT_EQ(dweight_alone, dweight);
    return std::vector<Result>{result("sum", sum), result("onto", onto), result("dx", dx), result("dweight", dweight)};
  };
  return {fmt::format("weighted_{}x{}_{}", terms, count, accumulate ? "add" : "overwrite"), run, 2e-6, true, 0.5};
}

/// Norms of several vectors at once, and sums of doubles.
KernelCase sums_case(int64_t count) {
  const auto run = [=](const Kernels& kernels) {
    const Array<float> x = normal(2 * count + 3, 1), y = normal(count, 2);
    const std::vector<Stretch> list = {{x.data(), count},         {nullptr, 0},      {x.data() + count, 3},
                                       {x.data() + 3, 2 * count}, {y.data(), count}, {x.data() + count, 3}};
    std::vector<double> sums(list.size(), -1);
    kernels.sums_of_squares(static_cast<int64_t>(list.size()), list.data(), sums.data());
    kernels.sums_of_squares(0, nullptr, nullptr);
    for (size_t i = 0; i < list.size(); ++i) {
      double expected = 0;
      for (int64_t j = 0; j < list[i].count; ++j)
        expected += static_cast<double>(list[i].data[j]) * static_cast<double>(list[i].data[j]);
      EXPECT_NEAR(sums[i], expected, 1e-12 * expected) << "vector " << i;
    }
    Array<double> doubles;
    for (const float value : x) doubles.push_back(1 + static_cast<double>(value) / 3);
    return std::vector<Result>{{"sums", sums},
                               {"sum", {kernels.sum_doubles(count, doubles.data(), false)}},
                               {"sum of squares", {kernels.sum_doubles(count, doubles.data(), true)}}};
  };
  return {fmt::format("sums_{}", count), run, 1e-12};
}

std::vector<KernelCase> elementwise_cases() {
  std::vector<KernelCase> cases;
  for (const int64_t count : {0, 1, 31, 33, 257, 4096, 70001}) {
    cases.push_back({fmt::format("n{}", count), [count](const Kernels& kernels) {
                       const Array<float> x = normal(count, 1), y = normal(count, 2);
                       Array<float> sum = blank(count), scaled = blank(count), into_x = x, into_y = y, in_place = x;
                       kernels.linear_combination(count, 0.3F, x.data(), -1.7F, y.data(), sum.data());
                       kernels.linear_combination(count, 0.3F, into_x.data(), -1.7F, y.data(), into_x.data());
                       kernels.linear_combination(count, 0.3F, x.data(), -1.7F, into_y.data(), into_y.data());
                       EXPECT_EQ(into_x, sum);
                       EXPECT_EQ(into_y, sum);
                       kernels.scale(count, -0.7F, x.data(), scaled.data());
                       kernels.scale(count, -0.7F, in_place.data(), in_place.data());
                       EXPECT_EQ(in_place, scaled);
                       const double squares = kernels.sum_of_squares(count, x.data());
                       return std::vector<Result>{result("sum", sum), result("scaled", scaled), {"squares", {squares}}};
                     }});
  }
  for (const int64_t count : {0, 1, 31, 33, 257, 4096, 70001}) cases.push_back(sums_case(count));
  for (const int64_t count : {0, 1, 31, 257, 4096, 70001})
    for (const int64_t terms : {1, 3})
      for (const bool accumulate : {false, true}) cases.push_back(weighted_sum_case(count, terms, accumulate));
  return cases;
}

HEDDLE_KERNEL_CASES(Elementwise, elementwise_cases());
HEDDLE_EACH_DEVICE(ElementwiseTest);

TEST_P(ElementwiseTest, HandMadeAnswers) {
  const Array<float> x = {1, -2, 3}, y = {10, 20, 30};
  Array<float> out = blank(3);
  GetParam()->linear_combination(3, 2, x.data(), 0.5F, y.data(), out.data());
  EXPECT_EQ(out, (Array<float>{7, 6, 21}));
  GetParam()->scale(3, -3, x.data(), out.data());
  EXPECT_EQ(out, (Array<float>{-3, 6, -9}));
  EXPECT_EQ(GetParam()->sum_of_squares(3, x.data()), 14);
  GetParam()->fill_zero(3, (out = blank(3)).data());
  EXPECT_EQ(out, (Array<float>{0, 0, 0}));
}

TEST_P(ElementwiseTest, SumsByHand) {
  const Array<float> x = {1, -2, 3, 5};
  const Stretch list[] = {{x.data(), 3}, {x.data() + 3, 1}, {nullptr, 0}, {x.data() + 1, 2}};
  std::vector<double> sums(4, -1);
  GetParam()->sums_of_squares(4, list, sums.data());
  EXPECT_EQ(sums, (std::vector<double>{14, 25, 0, 13}));
  const Array<double> doubles = {0.5, -3, 1e-3};
  EXPECT_DOUBLE_EQ(GetParam()->sum_doubles(3, doubles.data(), false), -2.499);
  EXPECT_DOUBLE_EQ(GetParam()->sum_doubles(3, doubles.data(), true), 9.250001);
  EXPECT_EQ(GetParam()->sum_doubles(0, nullptr, false), 0);
}

TEST_P(ElementwiseTest, WeightedSumByHand) {
  const Array<float> x = {1, -2, 3}, y = {10, 20, 30}, weights = {2, 0.5F}, base = {100, 200, 300};
  const ConstReals xs[] = {x.data(), y.data()};
  Array<float> out = blank(3), dx = blank(3), dweight = {1000};
  GetParam()->weighted_sum_forward(3, 2, nullptr, weights.data(), xs, out.data());
  EXPECT_EQ(out, (Array<float>{7, 6, 21}));
  GetParam()->weighted_sum_forward(3, 1, base.data(), weights.data(), xs, out.data());
  EXPECT_EQ(out, (Array<float>{102, 196, 306}));
  GetParam()->weighted_term_backward(3, weights.data(), x.data(), y.data(), {dx.data(), false}, {dweight.data(), true});
  EXPECT_EQ(dx, (Array<float>{20, 40, 60}));
  EXPECT_EQ(dweight, (Array<float>{1060}));
}

TEST_P(ElementwiseTest, WeightGradientIsSummedInDouble) {
  const Array<float> x(1 << 20, 4097.0F);
  Array<float> dweight = blank(1);
  GetParam()->weighted_term_backward(1 << 20, nullptr, x.data(), x.data(), {}, {dweight.data(), false});
  EXPECT_EQ(dweight[0], static_cast<float>(4097.0 * 4097.0 * (1 << 20)));
}

TEST_P(ElementwiseTest, SumOfSquaresIsInDouble) {
  const Array<float> x(1 << 20, 4097.0F);  // the square needs 25 bits
  EXPECT_EQ(GetParam()->sum_of_squares(1 << 20, x.data()), 4097.0 * 4097.0 * (1 << 20));
}

}  // namespace
}  // namespace heddle::test
