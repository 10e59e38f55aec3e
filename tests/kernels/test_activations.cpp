// SwiGLU, GELU, squared ReLU, sigmoid gate, sigmoid, and the vector functions below them.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "kernels/cpu/vector_math.h"
#include "kernels/kernel_case.h"

namespace heddle::test {
namespace {

constexpr double kInputScale = 4, kTolerance = 2e-6;
constexpr double kCancelled = 0.1;  // 1 - sigmoid(x) loses digits where it is small

std::vector<KernelCase> activation_cases() {
  std::vector<KernelCase> cases;
  for (const int64_t count : {0, 1, 31, 33, 257, 70001}) {
    cases.push_back({fmt::format("swiglu_{}", count),
                     [count](const Kernels& kernels) {
                       const Array<float> gate = normal(count, 1, kInputScale), up = normal(count, 2),
                                          dy = normal(count, 3);
                       Array<float> y = blank(count), dgate = blank(count), dup = blank(count);
                       kernels.swiglu_forward(count, gate.data(), up.data(), y.data());
                       kernels.swiglu_backward(count, gate.data(), up.data(), dy.data(), dgate.data(), dup.data());
                       return std::vector<Result>{result("y", y), result("dgate", dgate), result("dup", dup)};
                     },
                     kTolerance, true, kCancelled});
    cases.push_back({fmt::format("sigmoid_gate_{}", count),
                     [count](const Kernels& kernels) {
                       const Array<float> gate = normal(count, 1, kInputScale), x = normal(count, 2),
                                          dy = normal(count, 3);
                       Array<float> y = blank(count), dgate = blank(count), dx = blank(count);
                       kernels.sigmoid_gate_forward(count, gate.data(), x.data(), y.data());
                       kernels.sigmoid_gate_backward(count, gate.data(), x.data(), dy.data(), dgate.data(), dx.data());
                       return std::vector<Result>{result("y", y), result("dgate", dgate), result("dx", dx)};
                     },
                     kTolerance, true, kCancelled});
    for (const Activation kind : {Activation::kGelu, Activation::kRelu2})
      cases.push_back({fmt::format("{}_{}", kind == Activation::kGelu ? "gelu" : "relu2", count),
                       [=](const Kernels& kernels) {
                         const Array<float> x = normal(count, 1, kInputScale), dy = normal(count, 2);
                         Array<float> y = blank(count), dx = blank(count), in_place = dy;
                         kernels.activation_forward(kind, count, x.data(), y.data());
                         kernels.activation_backward(kind, count, x.data(), dy.data(), dx.data());
                         kernels.activation_backward(kind, count, x.data(), in_place.data(), in_place.data());
                         EXPECT_EQ(in_place, dx);
                         return std::vector<Result>{result("y", y), result("dx", dx)};
                       },
                       kTolerance, true, kCancelled});
    for (const bool accumulate : {false, true}) {
      cases.push_back({fmt::format("sigmoid_{}_{}", count, accumulate ? "add" : "overwrite"),
                       [=](const Kernels& kernels) {
                         const Array<float> x = normal(count, 1, kInputScale), dy = normal(count, 2);
                         Array<float> y = blank(count), dx = destination(count, accumulate, 3);
                         kernels.sigmoid_forward(count, x.data(), y.data());
                         kernels.sigmoid_backward(count, y.data(), dy.data(), {dx.data(), accumulate});
                         kernels.sigmoid_backward(count, y.data(), dy.data(), {});
                         return std::vector<Result>{result("y", y), result("dx", dx)};
                       },
                       kTolerance, true, kCancelled});
    }
  }
  return cases;
}

HEDDLE_KERNEL_CASES(Activations, activation_cases());
HEDDLE_EACH_DEVICE(ActivationTest);

TEST_P(ActivationTest, HandMadeAnswers) {
  const auto log3 = static_cast<float>(std::log(3.0));  // sigmoid(ln 3) = 3/4
  const Array<float> gate = {0, log3, -log3}, x = {2, 4, 8};
  Array<float> y = blank(3);
  GetParam()->swiglu_forward(3, gate.data(), x.data(), y.data());
  expect_near(y, {0, 3 * std::log(3.0), -2 * std::log(3.0)}, 1e-6);
  GetParam()->sigmoid_gate_forward(3, gate.data(), x.data(), y.data());
  expect_near(y, {1, 3, 2}, 1e-6);
  GetParam()->sigmoid_forward(3, gate.data(), y.data());
  expect_near(y, {0.5, 0.75, 0.25}, 1e-7);
}

TEST_P(ActivationTest, GeluAndSquaredReluByHand) {
  const Array<float> x = {-3, 0, 1, 2}, ones(4, 1.0F);
  Array<float> y = blank(4), dx = blank(4);
  GetParam()->activation_forward(Activation::kRelu2, 4, x.data(), y.data());
  EXPECT_EQ(y, (Array<float>{0, 0, 1, 4}));
  GetParam()->activation_backward(Activation::kRelu2, 4, x.data(), ones.data(), dx.data());
  EXPECT_EQ(dx, (Array<float>{0, 0, 2, 4}));
  // Normal probabilities and densities from tables: P(1) = 0.8413447461, P(2) = 0.9772498681, P(-3) = 0.0013498980.
  GetParam()->activation_forward(Activation::kGelu, 4, x.data(), y.data());
  expect_near(y, {-0.0040496941, 0, 0.8413447461, 1.9544997361}, 1e-7);
  GetParam()->activation_backward(Activation::kGelu, 4, x.data(), ones.data(), dx.data());
  expect_near(dx, {0.0013498980 - 3 * 0.0044318484, 0.5, 0.8413447461 + 0.2419707245, 0.9772498681 + 2 * 0.0539909665},
              2e-7);
}

TEST_P(ActivationTest, OutputsMayShareInputMemory) {
  const Array<float> gate = normal(257, 1), up = normal(257, 2), dy = normal(257, 3);
  Array<float> dgate = blank(257), dup = blank(257);
  const Kernels& kernels = *GetParam();
  for (const auto backward : {kernels.swiglu_backward, kernels.sigmoid_gate_backward}) {
    backward(257, gate.data(), up.data(), dy.data(), dgate.data(), dup.data());
    Array<float> first = gate, second = up, third = dy;
    backward(257, first.data(), second.data(), dy.data(), first.data(), second.data());
    EXPECT_EQ(first, dgate);
    EXPECT_EQ(second, dup);
    backward(257, (first = gate).data(), up.data(), third.data(), third.data(), first.data());
    EXPECT_EQ(third, dgate);
    EXPECT_EQ(first, dup);
  }
  Array<float> y = blank(257), x = gate;
  kernels.sigmoid_forward(257, gate.data(), y.data());
  kernels.sigmoid_forward(257, x.data(), x.data());
  EXPECT_EQ(x, y);
}

TEST_P(ActivationTest, GradientsMatchDifferences) {
  constexpr int64_t kCount = 40;
  const Kernels& kernels = *GetParam();
  Array<float> gate = normal(kCount, 1), x = normal(kCount, 2), y = blank(kCount);
  const Array<float> dy = normal(kCount, 3);
  Array<float> dgate = blank(kCount), dx = blank(kCount);
  const auto swiglu = [&] {
    kernels.swiglu_forward(kCount, gate.data(), x.data(), y.data());
    return weighted_sum(dy, y);
  };
  kernels.swiglu_backward(kCount, gate.data(), x.data(), dy.data(), dgate.data(), dx.data());
  expect_gradient("swiglu gate", gate, dgate, swiglu);
  expect_gradient("swiglu up", x, dx, swiglu);

  const auto sigmoid_gate = [&] {
    kernels.sigmoid_gate_forward(kCount, gate.data(), x.data(), y.data());
    return weighted_sum(dy, y);
  };
  kernels.sigmoid_gate_backward(kCount, gate.data(), x.data(), dy.data(), dgate.data(), dx.data());
  expect_gradient("sigmoid_gate gate", gate, dgate, sigmoid_gate);
  expect_gradient("sigmoid_gate x", x, dx, sigmoid_gate);

  for (const Activation kind : {Activation::kGelu, Activation::kRelu2}) {
    const auto activation = [&] {
      kernels.activation_forward(kind, kCount, x.data(), y.data());
      return weighted_sum(dy, y);
    };
    kernels.activation_backward(kind, kCount, x.data(), dy.data(), dx.data());
    expect_gradient("activation", x, dx, activation);
  }

  const auto sigmoid = [&] {
    kernels.sigmoid_forward(kCount, x.data(), y.data());
    return weighted_sum(dy, y);
  };
  sigmoid();
  kernels.sigmoid_backward(kCount, y.data(), dy.data(), {dx.data(), false});
  expect_gradient("sigmoid", x, dx, sigmoid);
}

TEST_P(ActivationTest, SigmoidAtTheEnds) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Array<float> x = {-kInfinity, -1000, -100, 100, 1000, kInfinity, std::numeric_limits<float>::quiet_NaN()};
  Array<float> y = blank(7);
  GetParam()->sigmoid_forward(7, x.data(), y.data());
  expect_near({y.begin(), y.begin() + 6}, {0, 0, 0, 1, 1, 1}, 1e-40);
  EXPECT_TRUE(std::isnan(y[6]));
}

/// Distance of the answer from exp(x), in units of the last place of the rounded answer.
double ulp_error(float x, float answer) {
  const double exact = std::exp(static_cast<double>(x));
  const auto rounded = static_cast<float>(exact);
  const float next = std::nextafter(rounded, std::numeric_limits<float>::infinity());
  return std::abs(static_cast<double>(answer) - exact) / (static_cast<double>(next) - static_cast<double>(rounded));
}

TEST(VectorExp, WithinTwoUlpOverTheWholeRange) {
  constexpr int64_t kCount = 1 << 20;
  Array<float> x(kCount), y(kCount);
  for (int64_t i = 0; i < kCount; ++i)
    x[static_cast<size_t>(i)] = static_cast<float>(-104 + 192.7 * static_cast<double>(i) / kCount);
#pragma omp simd
  for (size_t i = 0; i < static_cast<size_t>(kCount); ++i) y[i] = cpu::vector_exp(x[i]);
  double worst = 0;
  for (size_t i = 0; i < static_cast<size_t>(kCount); ++i) worst = std::max(worst, ulp_error(x[i], y[i]));
  EXPECT_LE(worst, 2.0);
}

/// Largest error relative to the answer over [-limit, limit].
double worst_relative_error(float limit, float (*function)(float), double (*exact)(double)) {
  constexpr int64_t kCount = 1 << 18;
  double worst = 0;
  for (int64_t i = 0; i <= kCount; ++i) {
    const auto x = limit * static_cast<float>(2.0 * static_cast<double>(i) / kCount - 1);
    const double wanted = exact(static_cast<double>(x));
    if (wanted != 0) worst = std::max(worst, std::abs(static_cast<double>(function(x)) - wanted) / std::abs(wanted));
  }
  return worst;
}

TEST(VectorTanh, RelativeErrorOverTheWholeRange) {
  const auto exact = [](double x) { return std::tanh(x); };
  EXPECT_LE(worst_relative_error(1, cpu::vector_tanh, exact), 5e-7);
  EXPECT_LE(worst_relative_error(20, cpu::vector_tanh, exact), 5e-7);
  EXPECT_EQ(cpu::vector_tanh(0), 0.0F);
  EXPECT_EQ(cpu::vector_tanh(1e30F), 1.0F);
  EXPECT_EQ(cpu::vector_tanh(-std::numeric_limits<float>::infinity()), -1.0F);
  EXPECT_TRUE(std::isnan(cpu::vector_tanh(std::numeric_limits<float>::quiet_NaN())));
}

TEST(VectorNormalProbability, RelativeErrorAlsoInTheTail) {
  const auto function = [](float z) { return cpu::vector_normal_probability(z, cpu::vector_bell(z)); };
  const auto exact = [](double z) { return std::erfc(-z / std::sqrt(2.0)) / 2; };
  EXPECT_LE(worst_relative_error(1, function, exact), 5e-7);
  EXPECT_LE(worst_relative_error(5, function, exact), 2e-6);
  EXPECT_EQ(function(30), 1.0F);
  EXPECT_EQ(function(-30), 0.0F);
}

TEST(VectorExp, SpecialValues) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(cpu::vector_exp(0), 1.0F);
  EXPECT_EQ(cpu::vector_exp(-0.0F), 1.0F);
  EXPECT_EQ(cpu::vector_exp(-kInfinity), 0.0F);
  EXPECT_EQ(cpu::vector_exp(-105), 0.0F);
  EXPECT_EQ(cpu::vector_exp(-1e30F), 0.0F);
  EXPECT_EQ(cpu::vector_exp(88.75F), kInfinity);
  EXPECT_EQ(cpu::vector_exp(1e30F), kInfinity);
  EXPECT_EQ(cpu::vector_exp(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(cpu::vector_exp(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(cpu::vector_exp(-std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace heddle::test
