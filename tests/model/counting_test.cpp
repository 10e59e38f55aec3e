// Parameters and operations by formula, against sums made by hand and the totals of the LOOM release.
#include <gtest/gtest.h>

#include "model/counting.h"
#include "model/looped_model.h"
#include "tests/train/tiny_model.h"

namespace heddle {
namespace {

/// V 10, D 4, L 3, R 5, two query heads and one key-value head of 2, E 6, k 2, Es 1, F 3.
ModelConfig by_hand() {
  ModelConfig c;
  c.vocabulary_size = 10;
  c.hidden_size = 4;
  c.layers = 3;
  c.loops = 5;
  c.query_heads = 2;
  c.kv_heads = 1;
  c.head_dim = 2;
  c.moe = {.experts = 6, .top_k = 2, .shared_experts = 1, .intermediate = 3};
  return c;
}

/// Operations of a token at sequence length 3, with so many visits of the core and passes through the head.
double forward(const ModelConfig& model, int64_t loops, int64_t exits) {
  return forward_flops_per_token(model, 3, {.loops = loops, .exits = exits}).total();
}

/// The released sizes (E 30 + 2 shared, k 6, V 49152).
ModelConfig released(int64_t layers, int64_t width, int64_t query_heads, int64_t kv_heads, int64_t intermediate,
                     int64_t loops) {
  ModelConfig c;
  c.vocabulary_size = 49152;
  c.hidden_size = width;
  c.layers = layers;
  c.loops = loops;
  c.query_heads = query_heads;
  c.kv_heads = kv_heads;
  c.head_dim = 64;
  c.moe = {.experts = 30, .top_k = 6, .shared_experts = 2, .intermediate = intermediate};
  return c;
}

TEST(Counting, ParametersByHand) {
  const ParameterCount c = count_parameters(by_hand());
  EXPECT_EQ(c.embedding, 40);
  EXPECT_EQ(c.head, 40);
  EXPECT_EQ(c.core.attention, 3 * (4 * 4 * 3 + 4 * 2 * 2));  // g, q, o of 4 x 4; k, v of 4 x 2
  EXPECT_EQ(c.core.routers, 3 * 5 * 6 * 4);
  EXPECT_EQ(c.core.routed_experts, 3 * 6 * 36);
  EXPECT_EQ(c.core.shared_experts, 3 * 36);
  EXPECT_EQ(c.core.norms, 12);
  EXPECT_EQ(c.prelude.total() + c.coda.total() + c.boundary + c.norms, 0);
  EXPECT_EQ(c.total(), 40 + 40 + 192 + 360 + 648 + 108 + 12);
  EXPECT_EQ(c.active, 40 + 40 + 192 + 3 * 24 + 3 * 2 * 36 + 108 + 12);
}

TEST(Counting, ForwardOperationsByHand) {
  // One visit: projections 64, scores 2 * 4 * (S + 1) / 2 = 16 at S 3, router 24, experts (2 + 1) * 36.
  const double visit = 64 + 16 + 24 + 108, head = 40;
  EXPECT_DOUBLE_EQ(forward(by_hand(), 5, 2), 2 * (3 * 5 * visit + 2 * head));
  EXPECT_DOUBLE_EQ(forward(by_hand(), 1, 1), 2 * (3 * visit + head));
  EXPECT_DOUBLE_EQ(training_flops_per_token(by_hand(), 3, {.loops = 5, .exits = 2}).total(),
                   3 * 2 * (3 * 5 * visit + 2 * head));
}

TEST(Counting, ChosenExpertsCountAndIdleOnesDoNot) {
  ModelConfig more = by_hand();
  more.moe.experts = 12;  // only the router grows
  EXPECT_DOUBLE_EQ(forward(more, 5, 1) - forward(by_hand(), 5, 1), 2 * 15 * 24.0);
  more = by_hand();
  more.moe.top_k = 3;
  EXPECT_DOUBLE_EQ(forward(more, 5, 1) - forward(by_hand(), 5, 1), 2 * 15 * 36.0);
}

TEST(Counting, LoopsMultiplyTheCoreOnly) {
  const double head = 2 * 40;
  EXPECT_DOUBLE_EQ(forward(by_hand(), 10, 1) - head, 2 * (forward(by_hand(), 5, 1) - head));
}

TEST(Counting, OfADensePointWithPreludeAndCodaByHand) {
  // V 10, D 4, P 1, L 2, C 1, R 5, heads of 2 without gate, squared ReLU of width 6, W [e ; h] also before the coda.
  ModelConfig c = by_hand();
  c.prelude_layers = c.coda_layers = 1;
  c.layers = 2;
  c.output_gate = false;
  c.core_feed_forward = FeedForwardKind::kDense;
  c.activation = DenseActivation::kRelu2;
  c.dense_intermediate = 6;
  c.embedding_tied = true;
  c.reinjection = Reinjection::kLinear;
  c.before_coda = BeforeCoda::kFull;
  c.norms.pre = c.norms.query_key = c.norms.final = NormKind::kGain;
  const ParameterCount count = count_parameters(c);
  EXPECT_EQ(count.embedding, 40);
  EXPECT_EQ(count.head, 0) << "tied";
  EXPECT_EQ(count.prelude.attention, 4 * 4 * 2 + 4 * 2 * 2);
  EXPECT_EQ(count.prelude.dense, 2 * 4 * 6);
  EXPECT_EQ(count.prelude.norms, 2 * 4 + 2 * 2);
  EXPECT_EQ(count.core.total(), 2 * (48 + 48 + 12));
  EXPECT_EQ(count.coda.total(), 48 + 48 + 12);
  EXPECT_EQ(count.boundary, 4 * 8);
  EXPECT_EQ(count.norms, 4);
  EXPECT_EQ(count.total(), 40 + 4 * 108 + 32 + 4);
  c.tied = false;
  EXPECT_EQ(count_parameters(c).core.total(), 5 * 2 * 108);
  // A visit: projections 48, scores 2 * 4 * (S + 1) / 2 = 16 at S 3, feed-forward 48.
  const double visit = 112, boundary = 32, head = 40;
  EXPECT_DOUBLE_EQ(forward(c, 5, 1), 2 * (visit + 5 * 2 * visit + visit + (5 + 1) * boundary + head));
  // Truncated to two loops: three of five run forward only.
  EXPECT_DOUBLE_EQ(training_flops_per_token(c, 3, {.loops = 5, .without_gradient = 3}).total(),
                   2 * (3 * visit + (3 + 2 * 3) * 2 * visit + 3 * visit + (3 + 2 * 3 + 3) * boundary + 3 * head));
}

TEST(Counting, TotalsOfTheRelease) {
  for (const int64_t loops : {1, 3, 6, 9, 12}) {
    const double millions = static_cast<double>(count_parameters(released(10, 512, 8, 4, 512, loops)).total()) / 1e6;
    EXPECT_NEAR(millions, 312.5 + 0.154 * static_cast<double>(loops), 0.1) << loops << " loops";
  }
  const double billions = static_cast<double>(count_parameters(released(15, 1280, 20, 10, 768, 3)).total()) / 1e9;
  EXPECT_NEAR(billions, 1.7, 0.1);
}

TEST(Counting, TheFormulaCountsTheModelsOwnTensors) {
  const auto world = make_single_communicator();
  ProcessGroups groups(*world, 1);
  for (const ModelConfig& c : {tiny_model(), by_hand()}) {
    LoopedModel model(c, groups, cpu::kernels());
    EXPECT_EQ(model.parameters().global_count(), count_parameters(c).total());
  }
}

}  // namespace
}  // namespace heddle
