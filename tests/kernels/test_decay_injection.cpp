// Injection with a learned decay per channel.
#include <fmt/format.h>

#include <cmath>

#include "kernels/kernel_case.h"

namespace heddle::test {
namespace {

KernelCase decay_injection_case(int64_t rows, int64_t width, bool accumulate) {
  const auto run = [=](const Kernels& kernels) {
    const int64_t count = rows * width;
    const Array<float> h = normal(count, 1), injected = normal(count, 2), dt_bias = normal(width, 3, 3),
                       a_log = normal(width, 4), dout = normal(count, 5);
    Array<float> out = blank(count), dh = destination(count, accumulate, 6),
                 dinjected = destination(count, accumulate, 7), ddt_bias = destination(width, accumulate, 8),
                 da_log = destination(width, accumulate, 9), dh_alone = dh;
    kernels.decay_injection_forward(rows, width, h.data(), injected.data(), dt_bias.data(), a_log.data(), out.data());
    kernels.decay_injection_backward(rows, width, h.data(), injected.data(), dt_bias.data(), a_log.data(), dout.data(),
                                     {dh.data(), accumulate}, {dinjected.data(), accumulate},
                                     {ddt_bias.data(), accumulate}, {da_log.data(), accumulate});
    kernels.decay_injection_backward(rows, width, h.data(), injected.data(), dt_bias.data(), a_log.data(), dout.data(),
                                     {dh_alone.data(), accumulate}, {}, {}, {});
    EXPECT_EQ(dh_alone, dh);
    return std::vector<Result>{result("out", out), result("dh", dh), result("dinjected", dinjected),
                               result("ddt_bias", ddt_bias), result("da_log", da_log)};
  };
  return {fmt::format("{}x{}_{}", rows, width, accumulate ? "add" : "overwrite"), run, 4e-6, true, 0.5};
}

std::vector<KernelCase> decay_injection_cases() {
  std::vector<KernelCase> cases;
  for (const bool accumulate : {false, true})
    for (const auto& [rows, width] : {std::pair{0, 33}, std::pair{1, 1}, std::pair{1, 257}, std::pair{31, 33},
                                      std::pair{33, 31}, std::pair{257, 1}, std::pair{259, 257}, std::pair{1100, 40}})
      cases.push_back(decay_injection_case(rows, width, accumulate));
  return cases;
}

HEDDLE_KERNEL_CASES(DecayInjection, decay_injection_cases());
HEDDLE_EACH_DEVICE(DecayInjectionTest);

TEST_P(DecayInjectionTest, HandMadeAnswers) {
  // Delta = log(1 + (e^2 - 1)) = 2, A = 1/2: exp(-1) h + 2 injected. In the second channel A = 0: h + 2 injected.
  const auto bias = static_cast<float>(std::log(std::exp(2.0) - 1)), log_half = static_cast<float>(std::log(0.5));
  const Array<float> h = {1, 3}, injected = {10, 20}, dt_bias = {bias, bias}, a_log = {log_half, -200};
  Array<float> out = blank(2);
  GetParam()->decay_injection_forward(1, 2, h.data(), injected.data(), dt_bias.data(), a_log.data(), out.data());
  expect_near(out, {std::exp(-1.0) + 20, 43}, 1e-5);
}

TEST_P(DecayInjectionTest, LargeBiasesNeitherOverflowNorVanish) {
  const Array<float> h = {0, 0}, injected = {1, 1}, dt_bias = {200, -80}, a_log = {0, 0};
  Array<float> out = blank(2);
  GetParam()->decay_injection_forward(1, 2, h.data(), injected.data(), dt_bias.data(), a_log.data(), out.data());
  EXPECT_FLOAT_EQ(out[0], 200);
  EXPECT_FLOAT_EQ(out[1], static_cast<float>(std::exp(-80.0)));
}

TEST_P(DecayInjectionTest, GradientsMatchDifferences) {
  constexpr int64_t kRows = 5, kWidth = 7, kCount = kRows * kWidth;
  Array<float> h = normal(kCount, 1), injected = normal(kCount, 2), dt_bias = normal(kWidth, 3),
               a_log = normal(kWidth, 4), out = blank(kCount);
  const Array<float> dout = normal(kCount, 5);
  Array<float> dh = blank(kCount), dinjected = blank(kCount), ddt_bias = blank(kWidth), da_log = blank(kWidth);
  const auto loss = [&] {
    GetParam()->decay_injection_forward(kRows, kWidth, h.data(), injected.data(), dt_bias.data(), a_log.data(),
                                        out.data());
    return weighted_sum(dout, out);
  };
  GetParam()->decay_injection_backward(kRows, kWidth, h.data(), injected.data(), dt_bias.data(), a_log.data(),
                                       dout.data(), {dh.data(), false}, {dinjected.data(), false},
                                       {ddt_bias.data(), false}, {da_log.data(), false});
  expect_gradient("h", h, dh, loss);
  expect_gradient("injected", injected, dinjected, loss);
  expect_gradient("dt_bias", dt_bias, ddt_bias, loss);
  expect_gradient("a_log", a_log, da_log, loss);
}

}  // namespace
}  // namespace heddle::test
