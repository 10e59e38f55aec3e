// One row for all rows, and modulation.
#include <fmt/format.h>

#include "kernels/kernel_case.h"

namespace heddle::test {
namespace {

KernelCase broadcast_case(int64_t rows, int64_t width, bool accumulate) {
  const auto run = [=](const Kernels& kernels) {
    const Array<float> x = normal(rows * width, 1), row = normal(width, 2), modulation = normal(2 * rows * width, 3),
                       dout = normal(rows * width, 4);
    Array<float> added = blank(rows * width), in_place = x, sum = destination(width, accumulate, 5);
    kernels.add_row(rows, width, x.data(), row.data(), added.data());
    kernels.add_row(rows, width, in_place.data(), row.data(), in_place.data());
    EXPECT_EQ(in_place, added);
    kernels.sum_rows(rows, width, x.data(), {sum.data(), accumulate});
    kernels.sum_rows(rows, width, x.data(), {});
    Array<float> out = blank(rows * width), dx = destination(rows * width, accumulate, 6),
                 dmodulation = destination(2 * rows * width, accumulate, 7), dx_alone = dx, dm_alone = dmodulation;
    kernels.modulate_forward(rows, width, x.data(), modulation.data(), out.data());
    kernels.modulate_backward(rows, width, x.data(), modulation.data(), dout.data(), {dx.data(), accumulate},
                              {dmodulation.data(), accumulate});
    kernels.modulate_backward(rows, width, x.data(), modulation.data(), dout.data(), {dx_alone.data(), accumulate}, {});
    kernels.modulate_backward(rows, width, x.data(), modulation.data(), dout.data(), {}, {dm_alone.data(), accumulate});
    EXPECT_EQ(dx_alone, dx);
    EXPECT_EQ(dm_alone, dmodulation);
    return std::vector<Result>{result("added", added), result("sum", sum), result("out", out), result("dx", dx),
                               result("dmodulation", dmodulation)};
  };
  return {fmt::format("{}x{}_{}", rows, width, accumulate ? "add" : "overwrite"), run, 2e-6, true, 0.5};
}

std::vector<KernelCase> broadcast_cases() {
  std::vector<KernelCase> cases;
  for (const bool accumulate : {false, true})
    for (const auto& [rows, width] : {std::pair{0, 33}, std::pair{1, 1}, std::pair{1, 257}, std::pair{31, 33},
                                      std::pair{33, 31}, std::pair{257, 1}, std::pair{259, 257}, std::pair{1100, 40}})
      cases.push_back(broadcast_case(rows, width, accumulate));
  return cases;
}

HEDDLE_KERNEL_CASES(Broadcast, broadcast_cases());
HEDDLE_EACH_DEVICE(BroadcastTest);

TEST_P(BroadcastTest, HandMadeAnswers) {
  const Array<float> x = {1, 2, 3, 4}, row = {10, -10}, modulation = {0, 1, 5, 6, -1, 2, 7, 8}, dout = {1, 2, 3, 4};
  Array<float> out = blank(4), sum = {100, 200};
  GetParam()->add_row(2, 2, x.data(), row.data(), out.data());
  EXPECT_EQ(out, (Array<float>{11, -8, 13, -6}));
  GetParam()->sum_rows(2, 2, x.data(), {sum.data(), true});
  EXPECT_EQ(sum, (Array<float>{104, 206}));
  GetParam()->sum_rows(0, 2, x.data(), {sum.data(), false});
  EXPECT_EQ(sum, (Array<float>{0, 0}));
  GetParam()->modulate_forward(2, 2, x.data(), modulation.data(), out.data());
  EXPECT_EQ(out, (Array<float>{6, 10, 7, 20}));
  Array<float> dx = blank(4), dmodulation = blank(8);
  GetParam()->modulate_backward(2, 2, x.data(), modulation.data(), dout.data(), {dx.data(), false},
                                {dmodulation.data(), false});
  EXPECT_EQ(dx, (Array<float>{1, 4, 0, 12}));
  EXPECT_EQ(dmodulation, (Array<float>{1, 4, 1, 2, 9, 16, 3, 4}));
}

TEST_P(BroadcastTest, GradientsMatchDifferences) {
  constexpr int64_t kRows = 5, kWidth = 7;
  Array<float> x = normal(kRows * kWidth, 1), modulation = normal(2 * kRows * kWidth, 2), out = blank(kRows * kWidth);
  const Array<float> dout = normal(kRows * kWidth, 3);
  Array<float> dx = blank(kRows * kWidth), dmodulation = blank(2 * kRows * kWidth);
  const auto loss = [&] {
    GetParam()->modulate_forward(kRows, kWidth, x.data(), modulation.data(), out.data());
    return weighted_sum(dout, out);
  };
  GetParam()->modulate_backward(kRows, kWidth, x.data(), modulation.data(), dout.data(), {dx.data(), false},
                                {dmodulation.data(), false});
  expect_gradient("x", x, dx, loss);
  expect_gradient("modulation", modulation, dmodulation, loss);
}

}  // namespace
}  // namespace heddle::test
