// Rows moved between token order and expert order.
#include <fmt/format.h>

#include "kernels/kernel_case.h"

namespace heddle::test {
namespace {

/// Slots of `rows` rows: row r owns r % 4 of them, and the slots lie in another order than the rows.
struct Slots {
  Array<int64_t> row_begin = {0}, slot, row;

  explicit Slots(int64_t rows) {
    for (int64_t r = 0; r < rows; ++r) row_begin.push_back(row_begin.back() + r % 4);
    const int64_t count = row_begin.back();
    row.assign(static_cast<size_t>(count), -1);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t e = row_begin[static_cast<size_t>(r)]; e < row_begin[static_cast<size_t>(r) + 1]; ++e) {
        slot.push_back(count - 1 - e);
        row[static_cast<size_t>(slot.back())] = r;
      }
    }
  }
  int64_t count() const { return static_cast<int64_t>(slot.size()); }
};

KernelCase rows_case(int64_t rows, int64_t width, bool weighted, bool accumulate) {
  const auto run = [=](const Kernels& kernels) {
    const Slots slots(rows);
    const Array<float> x = normal(rows * width, 1), weight = normal(slots.count(), 2),
                       y = normal(slots.count() * width, 3);
    Array<float> gathered = blank(slots.count() * width), out = destination(rows * width, accumulate, 4);
    Array<float> dy = blank(slots.count() * width), dweight = blank(slots.count()), in_place = y,
                 dweight_again = dweight;
    kernels.gather_rows(slots.count(), width, slots.row.data(), x.data(), gathered.data());
    kernels.sum_slots(rows, width, slots.row_begin.data(), slots.slot.data(), weighted ? weight.data() : nullptr,
                      y.data(), accumulate, out.data());
    kernels.sum_slots_backward(slots.count(), width, slots.row.data(), weight.data(), y.data(), x.data(), dy.data(),
                               dweight.data());
    kernels.sum_slots_backward(slots.count(), width, slots.row.data(), weight.data(), in_place.data(), x.data(),
                               in_place.data(), dweight_again.data());
    EXPECT_EQ(in_place, dy);
    EXPECT_EQ(dweight_again, dweight);
    return std::vector<Result>{result("gathered", gathered), result("out", out), result("dy", dy),
                               result("dweight", dweight)};
  };
  return {fmt::format("{}x{}{}_{}", rows, width, weighted ? "_weighted" : "", accumulate ? "add" : "overwrite"), run,
          2e-6, true, 0.5};
}

std::vector<KernelCase> rows_cases() {
  std::vector<KernelCase> cases;
  for (const bool weighted : {false, true})
    for (const bool accumulate : {false, true})
      for (const auto& [rows, width] :
           {std::pair{0, 33}, std::pair{1, 31}, std::pair{2, 1}, std::pair{31, 33}, std::pair{33, 31},
            std::pair{257, 1}, std::pair{259, 257}, std::pair{5, 1101}, std::pair{5, 2312}})
        cases.push_back(rows_case(rows, width, weighted, accumulate));
  return cases;
}

HEDDLE_KERNEL_CASES(Rows, rows_cases());
HEDDLE_EACH_DEVICE(RowsTest);

TEST_P(RowsTest, HandMadeAnswers) {
  const Array<int64_t> row = {2, 0, 2}, row_begin = {0, 1, 1, 3}, slot = {1, 2, 0};
  const Array<float> x = {1, 2, 3, 4, 5, 6}, weight = {10, 100, 1000};
  Array<float> y = blank(6), out = blank(6);
  GetParam()->gather_rows(3, 2, row.data(), x.data(), y.data());
  EXPECT_EQ(y, (Array<float>{5, 6, 1, 2, 5, 6}));
  GetParam()->sum_slots(3, 2, row_begin.data(), slot.data(), weight.data(), y.data(), false, out.data());
  EXPECT_EQ(out, (Array<float>{100, 200, 0, 0, 5050, 6060}));
  GetParam()->sum_slots(3, 2, row_begin.data(), slot.data(), nullptr, y.data(), true, out.data());
  EXPECT_EQ(out, (Array<float>{101, 202, 0, 0, 5060, 6072}));
  Array<float> dy = blank(6), dweight = blank(3);
  GetParam()->sum_slots_backward(3, 2, row.data(), weight.data(), y.data(), x.data(), dy.data(), dweight.data());
  EXPECT_EQ(dy, (Array<float>{50, 60, 100, 200, 5000, 6000}));
  EXPECT_EQ(dweight, (Array<float>{61, 5, 61}));
}

TEST_P(RowsTest, ScattersToItsPlaces) {
  const Array<int64_t> place = {4, 0, 2};
  const Array<float> x = {1, 2, 3};
  Array<float> y(5, -1.0F);
  GetParam()->scatter(3, place.data(), x.data(), y.data());
  EXPECT_EQ(y, (Array<float>{2, -1, 3, -1, 1}));
  GetParam()->scatter(0, nullptr, nullptr, y.data());
  EXPECT_EQ(y, (Array<float>{2, -1, 3, -1, 1}));
  for (const int64_t count : {1, 31, 33, 257, 1000}) {
    Array<int64_t> mirrored;
    for (int64_t i = 0; i < count; ++i) mirrored.push_back(2 * (count - 1 - i));
    const Array<float> values = normal(count, 1);
    Array<float> everywhere(static_cast<size_t>(2 * count), -1.0F);
    GetParam()->scatter(count, mirrored.data(), values.data(), everywhere.data());
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(everywhere[static_cast<size_t>(mirrored[i])], values[i]);
      EXPECT_EQ(everywhere[2 * i + 1], -1);
    }
  }
}

TEST_P(RowsTest, GradientsMatchDifferences) {
  constexpr int64_t kRows = 7, kWidth = 5;
  const Slots slots(kRows);
  Array<float> y = normal(slots.count() * kWidth, 1), weight = normal(slots.count(), 2), out = blank(kRows * kWidth);
  const Array<float> dout = normal(kRows * kWidth, 3);
  Array<float> dy = blank(slots.count() * kWidth), dweight = blank(slots.count());
  const auto loss = [&] {
    GetParam()->sum_slots(kRows, kWidth, slots.row_begin.data(), slots.slot.data(), weight.data(), y.data(), false,
                          out.data());
    return weighted_sum(dout, out);
  };
  GetParam()->sum_slots_backward(slots.count(), kWidth, slots.row.data(), weight.data(), y.data(), dout.data(),
                                 dy.data(), dweight.data());
  expect_gradient("y", y, dy, loss);
  expect_gradient("weight", weight, dweight, loss);
}

}  // namespace
}  // namespace heddle::test
