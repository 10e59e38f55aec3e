// Rotary positions in half layout.
#include <fmt/format.h>

#include <cmath>

#include "kernels/kernel_case.h"

namespace heddle::test {
namespace {

KernelCase rotary_case(int64_t rows, int64_t heads, int64_t head_dim, bool inverse) {
  const auto run = [=](const Kernels& kernels) {
    constexpr int64_t kPositions = 37;
    Array<float> cosine = blank(kPositions * head_dim / 2), sine = cosine;
    fill_rotary_table(kPositions, head_dim, 10000, cosine.data(), sine.data());
    Array<int32_t> position;
    for (int64_t r = 0; r < rows; ++r) position.push_back(static_cast<int32_t>(r * 5 % kPositions));
    const Array<float> x = normal(rows * heads * head_dim, 1);
    Array<float> y = blank(rows * heads * head_dim), in_place = x;
    kernels.rotary(rows, heads, head_dim, position.data(), cosine.data(), sine.data(), inverse, x.data(), y.data());
    kernels.rotary(rows, heads, head_dim, position.data(), cosine.data(), sine.data(), inverse, in_place.data(),
                   in_place.data());
    EXPECT_EQ(in_place, y);
    return std::vector<Result>{result("y", y)};
  };
  return {fmt::format("{}x{}x{}_{}", rows, heads, head_dim, inverse ? "inverse" : "forward"), run};
}

std::vector<KernelCase> rotary_cases() {
  std::vector<KernelCase> cases;
  for (const bool inverse : {false, true}) {
    for (const int64_t rows : {0, 1, 31, 33}) cases.push_back(rotary_case(rows, 3, 34, inverse));
    cases.push_back(rotary_case(257, 1, 2, inverse));
    cases.push_back(rotary_case(259, 2, 66, inverse));
    cases.push_back(rotary_case(515, 1, 64, inverse));
  }
  return cases;
}

HEDDLE_KERNEL_CASES(Rotary, rotary_cases());
HEDDLE_EACH_DEVICE(RotaryTest);

TEST(RotaryTable, AnglesByHand) {
  // head_dim 4, theta 10000: pairs turn by p and p / 100.
  Array<float> cosine = blank(6), sine = blank(6);
  fill_rotary_table(3, 4, 10000, cosine.data(), sine.data());
  expect_near(cosine, {1, 1, std::cos(1.0), std::cos(0.01), std::cos(2.0), std::cos(0.02)}, 1e-7);
  expect_near(sine, {0, 0, std::sin(1.0), std::sin(0.01), std::sin(2.0), std::sin(0.02)}, 1e-7);
}

TEST_P(RotaryTest, PairsAreHalfAHeadApart) {
  Array<float> cosine = blank(4), sine = blank(4);
  fill_rotary_table(2, 4, 10000, cosine.data(), sine.data());
  const Array<int32_t> position = {1};
  const Array<float> x = {1, 2, 3, 4};
  Array<float> y = blank(4);
  GetParam()->rotary(1, 1, 4, position.data(), cosine.data(), sine.data(), false, x.data(), y.data());
  const double c0 = std::cos(1.0), s0 = std::sin(1.0), c1 = std::cos(0.01), s1 = std::sin(0.01);
  expect_near(y, {1 * c0 - 3 * s0, 2 * c1 - 4 * s1, 3 * c0 + 1 * s0, 4 * c1 + 2 * s1}, 1e-6);
  GetParam()->rotary(1, 1, 4, position.data(), cosine.data(), sine.data(), true, y.data(), y.data());
  expect_near(y, {1, 2, 3, 4}, 1e-6);
}

TEST_P(RotaryTest, InverseIsTheGradient) {
  constexpr int64_t kRows = 4, kHeads = 2, kHeadDim = 6, kCount = kRows * kHeads * kHeadDim;
  Array<float> cosine = blank(12), sine = blank(12);
  fill_rotary_table(4, kHeadDim, 10000, cosine.data(), sine.data());
  const Array<int32_t> position = {0, 3, 1, 2};
  Array<float> x = normal(kCount, 1), y = blank(kCount), dx = blank(kCount);
  const Array<float> dy = normal(kCount, 2);
  const auto rotate = [&](bool inverse, const Array<float>& from, Array<float>& to) {
    GetParam()->rotary(kRows, kHeads, kHeadDim, position.data(), cosine.data(), sine.data(), inverse, from.data(),
                       to.data());
  };
  rotate(true, dy, dx);
  expect_gradient("x", x, dx, [&] {
    rotate(false, x, y);
    return weighted_sum(dy, y);
  });
}

}  // namespace
}  // namespace heddle::test
