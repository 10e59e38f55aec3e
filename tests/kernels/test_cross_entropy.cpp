// Softmax cross-entropy, with and without soft cap and z-loss.
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

KernelCase cross_entropy_case(int64_t rows, int64_t vocabulary, double scale, float cap, float z_weight) {
  const auto run = [=](const Kernels& kernels) {
    const Array<int32_t> targets = some_targets(rows, vocabulary);
    const Array<float> logits = normal(rows * vocabulary, 1, scale);
    const CrossEntropyOptions options{0.25F, cap, z_weight};
    Array<float> gradient = logits, kept = logits, capped = logits;
    Array<double> loss(static_cast<size_t>(rows), NAN), loss_alone = loss, log_total = loss, log_total_alone = loss;
    kernels.cross_entropy(rows, vocabulary, targets.data(), options, gradient.data(), gradient.data(), loss.data(),
                          log_total.data());
    kernels.cross_entropy(rows, vocabulary, targets.data(), options, kept.data(), nullptr, loss_alone.data(),
                          log_total_alone.data());
    if (cap > 0) kernels.soft_cap(rows * vocabulary, cap, logits.data(), capped.data());
    // Vectors of another start may round otherwise.
    EXPECT_LE(relative_error({kept.begin(), kept.end()}, {capped.begin(), capped.end()}, 0), cap > 0 ? 1e-6 : 0);
    EXPECT_EQ(loss_alone, loss);
    EXPECT_EQ(log_total_alone, log_total);
    return std::vector<Result>{result("loss", loss), result("log total", log_total), result("gradient", gradient),
                               result("capped", capped)};
  };
  return {fmt::format("{}x{}_scale{}{}{}", rows, vocabulary, scale, cap > 0 ? "_cap" : "", z_weight > 0 ? "_z" : ""),
          run, cap > 0 ? 1e-5 : 2e-6, true, vocabulary == 1 ? 0.25 : 0};
}

std::vector<KernelCase> cross_entropy_cases() {
  std::vector<KernelCase> cases;
  for (const float cap : {0.0F, 8.0F})
    for (const float z_weight : {0.0F, 0.1F})
      for (const int scale : {1, 30})
        for (const auto& [rows, vocabulary] : {std::pair{0, 33}, std::pair{1, 1}, std::pair{1, 257}, std::pair{31, 33},
                                               std::pair{33, 31}, std::pair{257, 255}, std::pair{5, 20001}})
          cases.push_back(cross_entropy_case(rows, vocabulary, scale, cap, z_weight));
  return cases;
}

HEDDLE_KERNEL_CASES(CrossEntropy, cross_entropy_cases());
HEDDLE_EACH_DEVICE(CrossEntropyTest);

TEST_P(CrossEntropyTest, HandMadeAnswers) {
  const auto log3 = static_cast<float>(std::log(3.0));
  Array<float> logits = {0, log3, 5, 5, 1000, 0, 7, 9};  // probabilities 1/4, 3/4 | 1/2, 1/2 | 1, 0 | ignored
  const Array<int32_t> targets = {1, 0, 1, kIgnoredTarget};
  Array<double> loss(4, NAN), log_total(4, NAN);
  GetParam()->cross_entropy(4, 2, targets.data(), {2, 0, 0}, logits.data(), logits.data(), loss.data(),
                            log_total.data());
  EXPECT_NEAR(loss[0], std::log(4.0 / 3), 1e-7);
  EXPECT_NEAR(loss[1], std::log(2.0), 1e-7);
  EXPECT_NEAR(loss[2], 1000, 1e-4);
  EXPECT_EQ(loss[3], 0);
  EXPECT_NEAR(log_total[0], std::log(4.0), 1e-7);
  EXPECT_NEAR(log_total[1], 5 + std::log(2.0), 1e-7);
  EXPECT_EQ(log_total[3], 0);
  expect_near(logits, {0.5, -0.5, -1, 1, 2, -2, 0, 0}, 1e-6);
}

TEST_P(CrossEntropyTest, SquaredNormaliserByHand) {
  // One target among equal logits x: logsumexp = x + ln 2, gradient of its square 2 (x + ln 2) / 2 for each.
  Array<float> logits = {3, 3};
  const Array<int32_t> targets = {0};
  Array<double> loss = {NAN}, log_total = {NAN};
  GetParam()->cross_entropy(1, 2, targets.data(), {1, 0, 0.5F}, logits.data(), logits.data(), loss.data(),
                            log_total.data());
  const double expected = 3 + std::log(2.0);
  EXPECT_NEAR(loss[0], std::log(2.0), 1e-6);
  EXPECT_NEAR(log_total[0], expected, 1e-6);
  expect_near(logits, {-0.5 + 0.5 * expected, 0.5 + 0.5 * expected}, 1e-6);
}

TEST_P(CrossEntropyTest, SoftCapByHand) {
  // tanh(ln 3) = (9 - 1) / (9 + 1) = 0.8, and its slope is 1 - 0.64.
  const auto two_log3 = static_cast<float>(2 * std::log(3.0));
  const Array<float> x = {two_log3, -two_log3, 0, 1e6F};
  Array<float> y = blank(4), gradient = {two_log3, two_log3};
  GetParam()->soft_cap(4, 2, x.data(), y.data());
  expect_near(y, {1.6, -1.6, 0, 2}, 1e-6);
  const Array<int32_t> targets = {1};
  Array<double> loss = {NAN}, log_total = {NAN};
  GetParam()->cross_entropy(1, 2, targets.data(), {1, 2, 0}, gradient.data(), gradient.data(), loss.data(),
                            log_total.data());
  EXPECT_NEAR(loss[0], std::log(2.0), 1e-6);
  EXPECT_NEAR(log_total[0], 1.6 + std::log(2.0), 1e-6);
  expect_near(gradient, {0.5 * 0.36, -0.5 * 0.36}, 1e-6);
}

TEST_P(CrossEntropyTest, IgnoredRowsGiveZeroWhateverTheyHold) {
  Array<float> logits = {NAN, std::numeric_limits<float>::infinity(), 1};
  const Array<int32_t> targets = {kIgnoredTarget};
  Array<double> loss = {NAN}, log_total = {NAN};
  GetParam()->cross_entropy(1, 3, targets.data(), {1, 0, 0.1F}, logits.data(), logits.data(), loss.data(),
                            log_total.data());
  EXPECT_EQ(loss[0], 0);
  EXPECT_EQ(log_total[0], 0);
  EXPECT_EQ(logits, (Array<float>{0, 0, 0}));
}

TEST_P(CrossEntropyTest, NanIsNotHidden) {
  for (const float cap : {0.0F, 5.0F}) {
    Array<float> logits = {1, NAN, 2};
    const Array<int32_t> targets = {0};
    Array<double> loss = {0}, log_total = {0};
    GetParam()->cross_entropy(1, 3, targets.data(), {1, cap, 0}, logits.data(), nullptr, loss.data(), log_total.data());
    EXPECT_TRUE(std::isnan(loss[0]));
    EXPECT_TRUE(std::isnan(log_total[0]));
  }
}

TEST_P(CrossEntropyTest, GradientsMatchDifferences) {
  constexpr int64_t kRows = 6, kVocabulary = 11;
  const Array<int32_t> targets = some_targets(kRows, kVocabulary);
  for (const float cap : {0.0F, 2.0F}) {
    for (const float z_weight : {0.0F, 0.3F}) {
      const CrossEntropyOptions options{0.5F, cap, z_weight};
      Array<float> logits = normal(kRows * kVocabulary, 1), gradient = logits;
      Array<double> loss(kRows), log_total(kRows);
      GetParam()->cross_entropy(kRows, kVocabulary, targets.data(), options, gradient.data(), gradient.data(),
                                loss.data(), log_total.data());
      expect_gradient("logits", logits, gradient, [&] {
        Array<float> copy = logits;
        GetParam()->cross_entropy(kRows, kVocabulary, targets.data(), options, copy.data(), nullptr, loss.data(),
                                  log_total.data());
        double sum = 0;
        for (size_t r = 0; r < loss.size(); ++r)
          sum += 0.5 * (loss[r] + static_cast<double>(z_weight) * log_total[r] * log_total[r]);
        return sum;
      });
    }
  }
}

}  // namespace
}  // namespace heddle::test
