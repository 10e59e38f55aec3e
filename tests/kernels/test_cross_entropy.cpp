// Softmax cross-entropy.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "kernels/kernel_case.h"

namespace heddle::test {
namespace {

Array<int32_t> some_targets(int64_t rows, int64_t vocabulary) {
  Array<int32_t> targets;
  for (int64_t r = 0; r < rows; ++r)
    targets.push_back(r % 5 == 3 ? kIgnoredTarget : static_cast<int32_t>((r * 7 + vocabulary - 1) % vocabulary));
  return targets;
}

KernelCase cross_entropy_case(int64_t rows, int64_t vocabulary, double scale) {
  const auto run = [=](const Kernels& kernels) {
    const Array<int32_t> targets = some_targets(rows, vocabulary);
    const Array<float> logits = normal(rows * vocabulary, 1, scale);
    Array<float> gradient = logits, kept = logits;
    Array<double> loss(static_cast<size_t>(rows), NAN), loss_alone = loss;
    kernels.cross_entropy(rows, vocabulary, targets.data(), 0.25F, true, gradient.data(), loss.data());
    kernels.cross_entropy(rows, vocabulary, targets.data(), 0.25F, false, kept.data(), loss_alone.data());
    EXPECT_EQ(kept, logits);
    return std::vector<Result>{result("loss", loss), result("loss alone", loss_alone), result("gradient", gradient)};
  };
  return {fmt::format("{}x{}_scale{}", rows, vocabulary, scale), run, 2e-6, true, vocabulary == 1 ? 0.25 : 0};
}

std::vector<KernelCase> cross_entropy_cases() {
  std::vector<KernelCase> cases;
  for (const int scale : {1, 30})
    for (const auto& [rows, vocabulary] : {std::pair{0, 33}, std::pair{1, 1}, std::pair{1, 257}, std::pair{31, 33},
                                           std::pair{33, 31}, std::pair{257, 255}, std::pair{5, 20001}})
      cases.push_back(cross_entropy_case(rows, vocabulary, scale));
  return cases;
}

HEDDLE_KERNEL_CASES(CrossEntropy, cross_entropy_cases());
HEDDLE_EACH_DEVICE(CrossEntropyTest);

TEST_P(CrossEntropyTest, HandMadeAnswers) {
  const auto log3 = static_cast<float>(std::log(3.0));
  Array<float> logits = {0, log3, 5, 5, 1000, 0, 7, 9};  // probabilities 1/4, 3/4 | 1/2, 1/2 | 1, 0 | ignored
  const Array<int32_t> targets = {1, 0, 1, kIgnoredTarget};
  Array<double> loss(4, NAN);
  GetParam()->cross_entropy(4, 2, targets.data(), 2, true, logits.data(), loss.data());
  EXPECT_NEAR(loss[0], std::log(4.0 / 3), 1e-7);
  EXPECT_NEAR(loss[1], std::log(2.0), 1e-7);
  EXPECT_NEAR(loss[2], 1000, 1e-4);
  EXPECT_EQ(loss[3], 0);
  expect_near(logits, {0.5, -0.5, -1, 1, 2, -2, 0, 0}, 1e-6);
}

TEST_P(CrossEntropyTest, IgnoredRowsGiveZeroWhateverTheyHold) {
  Array<float> logits = {NAN, std::numeric_limits<float>::infinity(), 1};
  const Array<int32_t> targets = {kIgnoredTarget};
  double loss = NAN;
  GetParam()->cross_entropy(1, 3, targets.data(), 1, true, logits.data(), &loss);
  EXPECT_EQ(loss, 0);
  EXPECT_EQ(logits, (Array<float>{0, 0, 0}));
}

TEST_P(CrossEntropyTest, NanIsNotHidden) {
  Array<float> logits = {1, NAN, 2};
  const Array<int32_t> targets = {0};
  double loss = 0;
  GetParam()->cross_entropy(1, 3, targets.data(), 1, false, logits.data(), &loss);
  EXPECT_TRUE(std::isnan(loss));
}

TEST_P(CrossEntropyTest, GradientsMatchDifferences) {
  constexpr int64_t kRows = 6, kVocabulary = 11;
  const Array<int32_t> targets = some_targets(kRows, kVocabulary);
  Array<float> logits = normal(kRows * kVocabulary, 1), gradient = logits;
  Array<double> loss(kRows);
  GetParam()->cross_entropy(kRows, kVocabulary, targets.data(), 0.5F, true, gradient.data(), loss.data());
  expect_gradient("logits", logits, gradient, [&] {
    GetParam()->cross_entropy(kRows, kVocabulary, targets.data(), 0.5F, false, logits.data(), loss.data());
    double sum = 0;
    for (const double l : loss) sum += 0.5 * l;
    return sum;
  });
}

}  // namespace
}  // namespace heddle::test
