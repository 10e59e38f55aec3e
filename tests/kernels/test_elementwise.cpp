// Linear combinations and the sum of squares.
#include <fmt/format.h>

#include "kernels/kernel_case.h"

namespace heddle::test {
namespace {

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
}

TEST_P(ElementwiseTest, SumOfSquaresIsInDouble) {
  const Array<float> x(1 << 20, 4097.0F);  // the square needs 25 bits
  EXPECT_EQ(GetParam()->sum_of_squares(1 << 20, x.data()), 4097.0 * 4097.0 * (1 << 20));
}

}  // namespace
}  // namespace heddle::test
