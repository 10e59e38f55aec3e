// Parameter updates.
#include <fmt/format.h>

#include <cmath>

#include "kernels/kernel_case.h"

namespace heddle::test {
namespace {

std::vector<KernelCase> optimizer_cases() {
  std::vector<KernelCase> cases;
  for (const int64_t count : {0, 1, 31, 33, 257, 70001}) {
    cases.push_back(
        {fmt::format("adamw_{}", count), [count](const Kernels& kernels) {
           const Array<float> gradient = normal(count, 1);
           Array<float> parameter = normal(count, 2), first = normal(count, 3, 0.1), second = normal(count, 4, 0.1);
           for (float& s : second) s *= s;
           kernels.adamw(count, {0.01F, 0.9F, 0.95F, 1e-8F, 0.1F, 0.5F, 1.3F, 1.1F}, gradient.data(), parameter.data(),
                         first.data(), second.data());
           return std::vector<Result>{result("parameter", parameter), result("first", first), result("second", second)};
         }});
    cases.push_back(
        {fmt::format("sgd_{}", count), [count](const Kernels& kernels) {
           const Array<float> gradient = normal(count, 1);
           Array<float> parameter = normal(count, 2), momentum = normal(count, 3);
           kernels.sgd(count, {0.01F, 0.9F, 0.1F, 0.5F}, gradient.data(), parameter.data(), momentum.data());
           return std::vector<Result>{result("parameter", parameter), result("momentum", momentum)};
         }});
  }
  return cases;
}

HEDDLE_KERNEL_CASES(Optimizer, optimizer_cases());
HEDDLE_EACH_DEVICE(OptimizerTest);

TEST_P(OptimizerTest, AdamWStepsByHand) {
  // First step (m = 1): M / (1 - b1) = g and sqrt(Q) / sqrt(1 - b2) = |g|, so p loses lr g / (|g| + eps) after decay.
  constexpr float kBeta1 = 0.9F, kBeta2 = 0.95F;
  AdamWCoefficients c = {0.1F, kBeta1, kBeta2, 0.5F, 0.2F, 0.5F, 1 / (1 - kBeta1), 1 / std::sqrt(1 - kBeta2)};
  const Array<float> gradient = {3, -1, 0};  // 1.5, -0.5, 0 after scaling
  Array<float> parameter = {1, 2, 3}, first(3, 0.0F), second(3, 0.0F);
  GetParam()->adamw(3, c, gradient.data(), parameter.data(), first.data(), second.data());
  expect_near(first, {0.15, -0.05, 0}, 1e-7);
  expect_near(second, {0.1125, 0.0125, 0}, 1e-7);
  expect_near(parameter, {0.98 - 0.1 * 1.5 / 2, 1.96 + 0.1 * 0.5 / 1, 2.94}, 1e-6);
}

TEST_P(OptimizerTest, SgdStepsByHand) {
  const Array<float> gradient = {4, -2};
  Array<float> parameter = {1, 2}, momentum = {10, 0};
  GetParam()->sgd(2, {0.1F, 0.5F, 0.2F, 0.5F}, gradient.data(), parameter.data(), momentum.data());
  expect_near(momentum, {7, -1}, 1e-6);
  expect_near(parameter, {0.98 - 0.7, 1.96 + 0.1}, 1e-6);
}

}  // namespace
}  // namespace heddle::test
