// Token embedding and its scatter-add.
#include <fmt/format.h>

#include "kernels/kernel_case.h"

namespace heddle::test {
namespace {

KernelCase embedding_case(int64_t rows, int64_t width, int64_t vocabulary, bool accumulate) {
  const auto run = [=](const Kernels& kernels) {
    Array<int32_t> tokens;
    for (int64_t r = 0; r < rows; ++r) tokens.push_back(static_cast<int32_t>(r * r % vocabulary));  // repeats, gaps
    const Array<float> table = normal(vocabulary * width, 1), dout = normal(rows * width, 2);
    Array<float> out = blank(rows * width), dtable = destination(vocabulary * width, accumulate, 3);
    kernels.embedding_forward(rows, width, 1.5F, tokens.data(), table.data(), out.data());
    kernels.embedding_backward(rows, width, vocabulary, 1.5F, tokens.data(), dout.data(), {dtable.data(), accumulate});
    kernels.embedding_backward(rows, width, vocabulary, 1.5F, tokens.data(), dout.data(), {});
    return std::vector<Result>{result("out", out), result("dtable", dtable)};
  };
  return {fmt::format("{}x{}_of_{}_{}", rows, width, vocabulary, accumulate ? "add" : "overwrite"), run};
}

std::vector<KernelCase> embedding_cases() {
  std::vector<KernelCase> cases;
  for (const bool accumulate : {false, true}) {
    for (const int64_t rows : {0, 1, 31, 33}) cases.push_back(embedding_case(rows, 33, 31, accumulate));
    cases.push_back(embedding_case(257, 1, 1, accumulate));
    cases.push_back(embedding_case(515, 129, 257, accumulate));
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

}  // namespace
}  // namespace heddle::test
