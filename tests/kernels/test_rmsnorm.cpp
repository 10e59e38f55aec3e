// RMSNorm with and without gain.
#include <fmt/format.h>

#include <cmath>

#include "kernels/kernel_case.h"

namespace heddle::test {
namespace {

constexpr float kEps = 1e-6F;

KernelCase rmsnorm_case(int64_t rows, int64_t width, bool with_gain, bool accumulate) {
  const auto run = [=](const Kernels& kernels) {
    const Array<float> x = normal(rows * width, 1), gain = normal(width, 2), dy = normal(rows * width, 3);
    const float* const g = with_gain ? gain.data() : nullptr;
    Array<float> y = blank(rows * width), inverse_rms = blank(rows), dx = destination(rows * width, accumulate, 4);
    Array<float> dgain = destination(width, accumulate, 5), dx_alone = destination(rows * width, accumulate, 4);
    kernels.rmsnorm_forward(rows, width, kEps, x.data(), g, y.data(), inverse_rms.data());
    const GradientOut into_gain = with_gain ? GradientOut{dgain.data(), accumulate} : GradientOut{};
    kernels.rmsnorm_backward(rows, width, x.data(), g, inverse_rms.data(), dy.data(), {dx.data(), accumulate},
                             into_gain);
    kernels.rmsnorm_backward(rows, width, x.data(), g, inverse_rms.data(), dy.data(), {dx_alone.data(), accumulate},
                             {});
    std::vector<Result> results = {result("y", y), result("inverse_rms", inverse_rms), result("dx", dx),
                                   result("dx alone", dx_alone)};
    if (with_gain) results.push_back(result("dgain", dgain));
    return results;
  };
  return {fmt::format("{}x{}_{}_{}", rows, width, with_gain ? "gain" : "plain", accumulate ? "add" : "overwrite"), run,
          4e-6, true, 0.5};
}

std::vector<KernelCase> rmsnorm_cases() {
  std::vector<KernelCase> cases;
  for (const bool with_gain : {false, true})
    for (const bool accumulate : {false, true})
      for (const auto& [rows, width] : {std::pair{0, 33}, std::pair{1, 1}, std::pair{1, 257}, std::pair{31, 33},
                                        std::pair{33, 31}, std::pair{257, 1}, std::pair{259, 257}})
        cases.push_back(rmsnorm_case(rows, width, with_gain, accumulate));
  // Many rows, and rows that are long, or very long.
  for (const auto& [rows, width] : {std::pair{9000, 8}, std::pair{9, 1032}, std::pair{2, 13000}})
    cases.push_back(rmsnorm_case(rows, width, true, width == 1032));
  return cases;
}

HEDDLE_KERNEL_CASES(RmsNorm, rmsnorm_cases());
HEDDLE_EACH_DEVICE(RmsNormTest);

TEST_P(RmsNormTest, ThreeAndFourByHand) {
  // mean of squares of (3, 4) and eps 0: 12.5.
  const Array<float> x = {3, 4}, gain = {1, -2};
  Array<float> y = blank(2), inverse_rms = blank(1);
  GetParam()->rmsnorm_forward(1, 2, 0, x.data(), nullptr, y.data(), inverse_rms.data());
  expect_near(inverse_rms, {1 / std::sqrt(12.5)}, 1e-7);
  expect_near(y, {3 / std::sqrt(12.5), 4 / std::sqrt(12.5)}, 1e-6);
  GetParam()->rmsnorm_forward(1, 2, 12.5F, x.data(), gain.data(), y.data(), inverse_rms.data());
  expect_near(y, {0.6, -1.6}, 1e-6);
}

TEST_P(RmsNormTest, RowOfZerosGivesZeros) {
  const Array<float> x(33, 0.0F), dy = normal(33, 1);
  Array<float> y = blank(33), inverse_rms = blank(1), dx = blank(33);
  GetParam()->rmsnorm_forward(1, 33, kEps, x.data(), nullptr, y.data(), inverse_rms.data());
  EXPECT_EQ(y, x);
  GetParam()->rmsnorm_backward(1, 33, x.data(), nullptr, inverse_rms.data(), dy.data(), {dx.data(), false}, {});
  for (size_t i = 0; i < 33; ++i) EXPECT_NEAR(dx[i], dy[i] * 1000, 0.01F);
}

TEST_P(RmsNormTest, GradientsMatchDifferences) {
  constexpr int64_t kRows = 5, kWidth = 12;
  Array<float> x = normal(kRows * kWidth, 1), gain = normal(kWidth, 2), y = blank(kRows * kWidth),
               inverse_rms = blank(kRows);
  const Array<float> dy = normal(kRows * kWidth, 3);
  Array<float> dx = blank(kRows * kWidth), dgain = blank(kWidth);
  const auto loss = [&] {
    GetParam()->rmsnorm_forward(kRows, kWidth, kEps, x.data(), gain.data(), y.data(), inverse_rms.data());
    return weighted_sum(dy, y);
  };
  loss();
  GetParam()->rmsnorm_backward(kRows, kWidth, x.data(), gain.data(), inverse_rms.data(), dy.data(), {dx.data(), false},
                               {dgain.data(), false});
  expect_gradient("x", x, dx, loss);
  expect_gradient("gain", gain, dgain, loss);
}

}  // namespace
}  // namespace heddle::test
