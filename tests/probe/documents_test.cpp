// Which documents are probed, and the standard error over them, by hand.
#include <numeric>

#include "probe/effects.h"
#include "tests/probe/probe_scene.h"
#include "train/evaluation.h"

namespace heddle {
namespace {

TEST(Estimate, IsTheRatioOfSums) {
  const std::vector<double> values{2, 6};
  const std::vector<int64_t> equal{1, 1}, unequal{1, 3};
  // Deviations 2 and 2 of documents of equal length: s / sqrt(n) = sqrt(8) / sqrt(2).
  EXPECT_NEAR(estimate(values, equal).mean, 4, 1e-12);
  EXPECT_NEAR(estimate(values, equal).standard_error, 2, 1e-12);
  // Two nats per token in both documents: nothing varies.
  EXPECT_NEAR(estimate(values, unequal).mean, 2, 1e-12);
  EXPECT_NEAR(estimate(values, unequal).standard_error, 0, 1e-12);
  EXPECT_TRUE(std::isnan(estimate(std::span(values).first(1), std::span(equal).first(1)).standard_error));
}

TEST(ProbeDocuments, AreSpacedOverThePartAndCutFromTheirStart) {
  const ProbeScene s(plain_dense());
  const ProbeDocuments four = s.documents(4, 3, 1000);
  const std::span<const uint64_t> ends = s.store.document_ends(Part::kTrain);  // twelve documents
  ASSERT_EQ(four.count(), 4);
  for (int64_t i = 0; i < 4; ++i) {
    const auto d = static_cast<size_t>(3 * i);
    const uint64_t first = d == 0 ? 0 : ends[d - 1];
    EXPECT_EQ(four.tokens()[static_cast<size_t>(i)], static_cast<int64_t>(ends[d] - first) - 1);
  }
  EXPECT_EQ(four.batches().size(), 2U);
  EXPECT_EQ(four.batches()[1].tokens.rows, 1);
  EXPECT_EQ(four.tokens_before(2), four.tokens()[0] + four.tokens()[1]);
  // The last row's first target is the second byte of document 9.
  EXPECT_EQ(four.batches()[1].tokens.targets.get<int32_t>()[0],
            static_cast<int32_t>(s.store.token(Part::kTrain, static_cast<int64_t>(ends[8]) + 1)));
  EXPECT_EQ(s.documents(100, 2, 7).total_tokens(), 12 * 7);
}

TEST(DocumentLosses, AddUpToTheLossOfTheEvaluation) {
  ProbeScene s(tiny_model());
  const ProbeDocuments documents(s.store, Part::kValidation, s.model->config(), {10, 400, 1, 0}, 0, 1);
  EvaluationOptions options;
  options.sequence = 400;
  options.loops = {1, 4};
  const std::vector<EvaluationResult> expected = evaluate(*s.model, s.store, Part::kValidation, options);
  const std::vector<std::vector<double>> found = document_losses(*s.model, documents, {1, 4});
  ASSERT_EQ(expected[0].targets, documents.total_tokens());
  for (size_t i = 0; i < 2; ++i)
    EXPECT_NEAR(estimate(found[i], documents.tokens()).mean, expected[i].nats_per_token, 1e-5) << i;
}

}  // namespace
}  // namespace heddle
