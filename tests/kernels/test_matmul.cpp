// Products and grouped products.
#include <fmt/format.h>

#include <algorithm>

#include "kernels/kernel_case.h"

namespace heddle::test {
namespace {

constexpr float kUntouched = 7;

struct Product {
  int64_t m, n, k;
  float alpha, beta;
};

/// Every matrix has three more columns than it needs; C's must stay as they are.
KernelCase product_case(Transpose ta, Transpose tb, const Product& p) {
  const auto letter = [](Transpose t) { return t == Transpose::kYes ? 'T' : 'N'; };
  const int64_t lda = (ta == Transpose::kYes ? p.m : p.k) + 3, ldb = (tb == Transpose::kYes ? p.k : p.n) + 3;
  const auto run = [=](const Kernels& kernels) {
    const Array<float> a = normal((ta == Transpose::kYes ? p.k : p.m) * lda, 1);
    const Array<float> b = normal((tb == Transpose::kYes ? p.n : p.k) * ldb, 2);
    const int64_t ldc = p.n + 3;
    Array<float> c = destination(p.m * ldc, p.beta != 0, 3);
    for (int64_t i = 0; i < p.m; ++i) std::fill_n(c.begin() + i * ldc + p.n, 3, kUntouched);
    kernels.matmul(ta, tb, p.m, p.n, p.k, p.alpha, a.data(), lda, b.data(), ldb, p.beta, c.data(), ldc);
    return std::vector<Result>{result("c", c)};
  };
  const char* const beta = p.beta == 0 ? "overwrite" : "add";
  return {fmt::format("{}{}_{}x{}x{}_{}", letter(ta), letter(tb), p.m, p.n, p.k, beta), run, 2e-6, false};
}

std::vector<KernelCase> product_cases() {
  std::vector<KernelCase> cases;
  const std::vector<Product> products = {
      {1, 1, 1, 1, 0},           {31, 33, 257, 1, 0}, {257, 1, 33, 0.5F, 1}, {1, 257, 31, 1, 1}, {33, 257, 31, 2, 0},
      {257, 255, 33, 1, -0.25F}, {31, 33, 0, 1, 0},   {31, 33, 0, 1, 0.5F},  {0, 33, 31, 1, 0},  {31, 0, 33, 1, 0.5F}};
  for (const Transpose ta : {Transpose::kNo, Transpose::kYes})
    for (const Transpose tb : {Transpose::kNo, Transpose::kYes})
      for (const Product& p : products) cases.push_back(product_case(ta, tb, p));
  return cases;
}

struct Groups {
  const char* name;
  std::vector<int64_t> offsets;
};

std::vector<Groups> group_layouts() {
  return {{"none", {0}},
          {"all_idle", {0, 0, 0}},
          {"one", {0, 31}},
          {"idle_first", {0, 0, 33, 64}},
          {"idle_middle", {0, 31, 31, 64}},
          {"idle_last", {0, 1, 34, 34}},
          {"uneven", {0, 257, 258, 258, 275, 308}},
          {"many", {0, 3, 3, 10, 11, 11, 11, 19, 20, 27, 27, 28, 30, 30, 31, 40, 40, 41, 43}}};
}

KernelCase grouped_case(const Groups& layout, int64_t n, int64_t k, bool accumulate) {
  const auto groups = static_cast<int64_t>(layout.offsets.size()) - 1;
  const int64_t rows = layout.offsets.back();
  const auto run = [=, offsets = layout.offsets](const Kernels& kernels) {
    const Array<float> x = normal(rows * k, 1), w = normal(groups * n * k, 2), dy = normal(rows * n, 3);
    Array<float> y = blank(rows * n), dx = destination(rows * k, accumulate, 4);
    Array<float> dw = destination(groups * n * k, accumulate, 5);
    kernels.grouped_matmul_forward(groups, offsets.data(), n, k, x.data(), w.data(), y.data());
    kernels.grouped_matmul_input_gradient(groups, offsets.data(), n, k, dy.data(), w.data(), accumulate, dx.data());
    kernels.grouped_matmul_weight_gradient(groups, offsets.data(), n, k, dy.data(), x.data(), accumulate, dw.data());
    return std::vector<Result>{result("y", y), result("dx", dx), result("dw", dw)};
  };
  return {fmt::format("{}_{}x{}_{}", layout.name, n, k, accumulate ? "add" : "overwrite"), run, 2e-6, false};
}

std::vector<KernelCase> grouped_cases() {
  std::vector<KernelCase> cases;
  for (const Groups& layout : group_layouts())
    for (const bool accumulate : {false, true})
      for (const auto& [n, k] : {std::pair{33, 31}, std::pair{1, 257}, std::pair{33, 16}, std::pair{16, 40}})
        cases.push_back(grouped_case(layout, n, k, accumulate));
  return cases;
}

HEDDLE_KERNEL_CASES(Matmul, product_cases());
HEDDLE_KERNEL_CASES(GroupedMatmul, grouped_cases());
HEDDLE_EACH_DEVICE(MatmulTest);

TEST_P(MatmulTest, HandMadeProducts) {
  const Array<float> a = {1, 2, 3, 4, 5, 6}, b = {1, 0, 2, 1, 0, 3};  // [2,3], [3,2]
  Array<float> c = blank(4);
  GetParam()->matmul(Transpose::kNo, Transpose::kNo, 2, 2, 3, 1, a.data(), 3, b.data(), 2, 0, c.data(), 2);
  EXPECT_EQ(c, (Array<float>{5, 11, 14, 23}));
  GetParam()->matmul(Transpose::kYes, Transpose::kYes, 3, 3, 2, 2, a.data(), 3, b.data(), 2, 0, (c = blank(9)).data(),
                     3);
  EXPECT_EQ(c, (Array<float>{2, 12, 24, 4, 18, 30, 6, 24, 36}));
}

TEST_P(MatmulTest, IdleGroupHasExactlyZeroWeightGradient) {
  const std::vector<int64_t> offsets = {0, 0, 2, 2};
  const Array<float> dy = {1, 2, 3, 4}, x = {1, 10};  // n = 2, k = 1
  Array<float> dw = blank(6);
  GetParam()->grouped_matmul_weight_gradient(3, offsets.data(), 2, 1, dy.data(), x.data(), false, dw.data());
  EXPECT_EQ(dw, (Array<float>{0, 0, 31, 42, 0, 0}));
  GetParam()->grouped_matmul_weight_gradient(3, offsets.data(), 2, 1, dy.data(), x.data(), true, dw.data());
  EXPECT_EQ(dw, (Array<float>{0, 0, 62, 84, 0, 0}));
}

TEST_P(MatmulTest, GroupedGradientsMatchDifferences) {
  const std::vector<int64_t> offsets = {0, 3, 3, 8};
  const int64_t groups = 3, rows = 8, n = 5, k = 7;
  Array<float> x = normal(rows * k, 1), w = normal(groups * n * k, 2);
  const Array<float> dy = normal(rows * n, 3);
  Array<float> y = blank(rows * n), dx = blank(rows * k), dw = blank(groups * n * k);
  const auto loss = [&] {
    GetParam()->grouped_matmul_forward(groups, offsets.data(), n, k, x.data(), w.data(), y.data());
    return weighted_sum(dy, y);
  };
  GetParam()->grouped_matmul_input_gradient(groups, offsets.data(), n, k, dy.data(), w.data(), false, dx.data());
  GetParam()->grouped_matmul_weight_gradient(groups, offsets.data(), n, k, dy.data(), x.data(), false, dw.data());
  expect_gradient("x", x, dx, loss);
  expect_gradient("w", w, dw, loss);
}

}  // namespace
}  // namespace heddle::test
