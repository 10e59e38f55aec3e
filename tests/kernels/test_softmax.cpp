// Softmax over rows and the squared logsumexp.
#include <fmt/format.h>

#include <cmath>

#include "kernels/kernel_case.h"

namespace heddle::test {
namespace {

KernelCase softmax_case(int64_t rows, int64_t width, double scale, bool accumulate) {
  const auto run = [=](const Kernels& kernels) {
    const Array<float> x = normal(rows * width, 1, scale), dy = normal(rows * width, 2);
    Array<float> y = blank(rows * width), in_place = x;
    kernels.softmax_forward(rows, width, x.data(), y.data());
    kernels.softmax_forward(rows, width, in_place.data(), in_place.data());
    EXPECT_EQ(in_place, y);
    Array<float> dx = destination(rows * width, accumulate, 3), dz = destination(rows * width, accumulate, 4);
    kernels.softmax_backward(rows, width, y.data(), dy.data(), {dx.data(), accumulate});
    kernels.softmax_backward(rows, width, y.data(), dy.data(), {});
    Array<double> square(static_cast<size_t>(rows), NAN), square_alone = square;
    kernels.squared_log_sum_exp(rows, width, 0.25F, x.data(), square.data(), {dz.data(), accumulate});
    kernels.squared_log_sum_exp(rows, width, 0.25F, x.data(), square_alone.data(), {});
    EXPECT_EQ(square_alone, square);
    return std::vector<Result>{result("y", y), result("dx", dx), result("square", square), result("dz", dz)};
  };
  return {fmt::format("{}x{}_scale{}_{}", rows, width, scale, accumulate ? "add" : "overwrite"), run, 4e-6, true, 0.1};
}

std::vector<KernelCase> softmax_cases() {
  std::vector<KernelCase> cases;
  for (const int scale : {1, 20})
    for (const bool accumulate : {false, true})
      for (const auto& [rows, width] : {std::pair{0, 33}, std::pair{1, 1}, std::pair{1, 257}, std::pair{31, 33},
                                        std::pair{33, 31}, std::pair{257, 1}, std::pair{259, 257}})
        cases.push_back(softmax_case(rows, width, scale, accumulate));
  return cases;
}

HEDDLE_KERNEL_CASES(Softmax, softmax_cases());
HEDDLE_EACH_DEVICE(SoftmaxTest);

TEST_P(SoftmaxTest, HandMadeAnswers) {
  const auto log3 = static_cast<float>(std::log(3.0));
  const Array<float> x = {0, log3, 1000, 1000}, dy = {1, 5, 2, -2};
  Array<float> y = blank(4), dx = blank(4);
  GetParam()->softmax_forward(2, 2, x.data(), y.data());
  expect_near(y, {0.25, 0.75, 0.5, 0.5}, 1e-7);
  GetParam()->softmax_backward(2, 2, y.data(), dy.data(), {dx.data(), false});
  expect_near(dx, {-0.75, 0.75, 1, -1}, 1e-6);  // dy . y = 4 and 0
  Array<double> square(2, NAN);
  GetParam()->squared_log_sum_exp(2, 2, 0.5F, x.data(), square.data(), {dx.data(), false});
  const double first = std::log(4.0), second = 1000 + std::log(2.0);
  EXPECT_NEAR(square[0], first * first, 1e-6);
  EXPECT_NEAR(square[1], second * second, 1e-3);
  expect_near(dx, {first / 4, first * 3 / 4, second / 2, second / 2}, 1e-4);
}

TEST_P(SoftmaxTest, GradientsMatchDifferences) {
  constexpr int64_t kRows = 5, kWidth = 7;
  Array<float> x = normal(kRows * kWidth, 1), y = blank(kRows * kWidth), dx = blank(kRows * kWidth);
  const Array<float> dy = normal(kRows * kWidth, 2);
  const auto loss = [&] {
    GetParam()->softmax_forward(kRows, kWidth, x.data(), y.data());
    return weighted_sum(dy, y);
  };
  loss();
  GetParam()->softmax_backward(kRows, kWidth, y.data(), dy.data(), {dx.data(), false});
  expect_gradient("softmax", x, dx, loss);

  Array<double> square(kRows);
  const auto squares = [&](GradientOut gradient) {
    GetParam()->squared_log_sum_exp(kRows, kWidth, 0.5F, x.data(), square.data(), gradient);
    double sum = 0;
    for (const double s : square) sum += 0.5 * s;
    return sum;
  };
  squares({dx.data(), false});
  expect_gradient("squared logsumexp", x, dx, [&] { return squares({}); });
}

}  // namespace
}  // namespace heddle::test
