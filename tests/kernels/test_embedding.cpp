// Token embedding and its scatter-add.
#include <fmt/format.h>

#include "kernels/kernel_case.h"

namespace heddle::test {
namespace {

KernelCase embedding_case(int64_t rows, int64_t width, int64_t vocabulary, bool accumulate, bool collapsed = false) {
  const auto run = [=](const Kernels& kernels) {
    Array<int32_t> tokens;
    for (int64_t r = 0; r < rows; ++r)  // repeats, gaps
      tokens.push_back(static_cast<int32_t>(collapsed ? vocabulary - 1 : r * r % vocabulary));
    const Array<float> table = normal(vocabulary * width, 1), dout = normal(rows * width, 2);
    Array<float> out = blank(rows * width), dtable = destination(vocabulary * width, accumulate, 3);
    kernels.embedding_forward(rows, width, 1.5F, tokens.data(), table.data(), out.data());
    kernels.embedding_backward(rows, width, vocabulary, 1.5F, tokens.data(), dout.data(), {dtable.data(), accumulate});
    kernels.embedding_backward(rows, width, vocabulary, 1.5F, tokens.data(), dout.data(), {});
    return std::vector<Result>{result("out", out), result("dtable", dtable)};
  };
  return {fmt::format("{}x{}_of_{}_{}{}", rows, width, vocabulary, accumulate ? "add" : "overwrite",
                      collapsed ? "_one_token" : ""),
          run, collapsed ? 1e-5 : 2e-6};
}

std::vector<KernelCase> embedding_cases() {
  std::vector<KernelCase> cases;
  for (const bool accumulate : {false, true}) {
    for (const int64_t rows : {0, 1, 31, 33}) cases.push_back(embedding_case(rows, 33, 31, accumulate));
    cases.push_back(embedding_case(257, 1, 1, accumulate));
    cases.push_back(embedding_case(515, 129, 257, accumulate));
    cases.push_back(embedding_case(2500, 5, 1300, accumulate));
    cases.push_back(embedding_case(2500, 5, 600, accumulate, true));
  }
  return cases;
}

HEDDLE_KERNEL_CASES(Embedding, embedding_cases());
HEDDLE_EACH_DEVICE(EmbeddingTest);

TEST_P(EmbeddingTest, HandMadeAnswers) {
  const Array<int32_t> tokens = {2, 0, 2};
  const Array<float> table = {1, 2, 3, 4, 5, 6}, dout = {1, 10, 2, 20, 4, 40};
  Array<float> out = blank(6), dtable = blank(6);
  GetParam()->embedding_forward(3, 2, 2, tokens.data(), table.data(), out.data());
  EXPECT_EQ(out, (Array<float>{10, 12, 2, 4, 10, 12}));
  GetParam()->embedding_backward(3, 2, 3, 2, tokens.data(), dout.data(), {dtable.data(), false});
  EXPECT_EQ(dtable, (Array<float>{4, 40, 0, 0, 10, 100}));
  GetParam()->embedding_backward(3, 2, 3, 2, tokens.data(), dout.data(), {dtable.data(), true});
  EXPECT_EQ(dtable, (Array<float>{8, 80, 0, 0, 20, 200}));
}

TEST_P(EmbeddingTest, RowsOfATokenAreAddedInTheirOrder) {
  // Every large number swallows the one before it, so that the last one is left; other orders leave more, or none.
  constexpr int64_t kRows = 2000;
  constexpr float kLarge = 1 << 25;
  const Array<int32_t> tokens(kRows, 600);
  Array<float> dout(kRows, 0.0F), dtable = blank(601);
  for (size_t r = 0; r + 3 < kRows; r += 4) {
    dout[r] = kLarge;
    dout[r + 1] = -kLarge;
    dout[r + 2] = 1;
  }
  GetParam()->embedding_backward(kRows, 1, 601, 1, tokens.data(), dout.data(), {dtable.data(), false});
  EXPECT_EQ(dtable[0], 0);
  EXPECT_EQ(dtable[599], 0);
  EXPECT_EQ(dtable[600], 1);
}

}  // namespace
}  // namespace heddle::test
