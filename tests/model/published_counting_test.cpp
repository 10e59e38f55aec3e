// Parameters and operations in the terms of published studies, against the numbers that they publish or that follow
// from their formulas by hand.
#include "model/published_counting.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

/// A model without experts, gates and gains; head width 128.
ModelConfig dense(int64_t vocabulary, int64_t width, int64_t prelude, int64_t layers, int64_t coda, int64_t loops) {
  ModelConfig c;
  c.vocabulary_size = vocabulary;
  c.hidden_size = width;
  c.prelude_layers = prelude;
  c.layers = layers;
  c.coda_layers = coda;
  c.loops = loops;
  c.query_heads = c.kv_heads = width / 128;
  c.head_dim = 128;
  c.output_gate = false;
  c.core_feed_forward = FeedForwardKind::kDense;
  c.residual = ResidualScheme::kPlain;
  c.looping_residual = false;
  c.reinjection = Reinjection::kNone;
  return c;
}

/// Iso-depth: width 64 s, 20 effective layers.
ModelConfig iso_depth(int64_t s, int64_t r) {
  ModelConfig c = r == 1 ? dense(32064, 64 * s, 0, 20, 0, 1) : dense(32064, 64 * s, 2, 16 / r, 2, r);
  c.activation = DenseActivation::kRelu2;
  c.dense_intermediate = 4 * c.hidden_size;
  c.norms.pre = c.norms.embedding = c.norms.loop_end = c.norms.final = NormKind::kGain;
  if (r > 1) c.reinjection = Reinjection::kLinear;
  return c;
}

LoopWork all_loops(int64_t loops) {
  return {loops, 0, 1, 1};
}

TEST(IsoDepthCounting, WidthsAndLoopCountsOfTheStudy) {
  // Unique parameters and training operations per token from the study's formulas (V = 32064, S = 2048), which agree
  // with the tables of its project page to 0.05 % (their split of parameters is a regression).
  struct Row {
    int64_t s, r, parameters, flops;
  };
  const Row table[] = {
      {6, 1, 35'389'440, 474'955'776},       {6, 2, 21'528'576, 478'494'720},     {6, 4, 14'450'688, 482'033'664},
      {6, 8, 10'911'744, 489'111'552},       {10, 1, 98'304'000, 1'027'522'560},  {10, 2, 59'801'600, 1'037'352'960},
      {10, 4, 40'140'800, 1'047'183'360},    {10, 8, 30'310'400, 1'066'844'160},  {20, 1, 393'216'000, 3'234'693'120},
      {20, 2, 239'206'400, 3'274'014'720},   {20, 4, 160'563'200, 3'313'336'320}, {20, 8, 121'241'600, 3'391'979'520},
      {34, 1, 1'136'394'240, 8'306'540'544}, {34, 2, 691'306'496, 8'420'179'968}, {34, 4, 464'027'648, 8'533'819'392},
      {34, 8, 350'388'224, 8'761'098'240},
  };
  for (const Row& row : table) {
    SCOPED_TRACE(testing::Message() << "s = " << row.s << ", r = " << row.r);
    const ModelConfig c = iso_depth(row.s, row.r);
    EXPECT_EQ(IsoDepthCounting::parameters(c), row.parameters);
    EXPECT_DOUBLE_EQ(IsoDepthCounting::training_flops_per_token(c, 2048, all_loops(row.r)),
                     static_cast<double>(row.flops));
  }
}

TEST(IsoDepthCounting, TruncationCostsTwoOperationsPerWeightAndALoopWithoutGradient) {
  // s = 10, r = 4, 2 loops without gradient. By hand, d2 = 640^2: [2 2 + 6 2] (48 + 2) d2 + 6 48 d2 for the weights of
  // the loop and around it, 6 32064 640 for the head, (12 4 + (4 2 + 12 2) 4) 640 2048 for attention.
  const double d2 = 640 * 640;
  const double by_hand = 16 * 50 * d2 + 6 * 48 * d2 + 6.0 * 32064 * 640 + (48 + 128) * 640.0 * 2048;
  EXPECT_DOUBLE_EQ(IsoDepthCounting::training_flops_per_token(iso_depth(10, 4), 2048, {4, 2, 1, 1}), by_hand);
  // The study: at equal operations 1.315 times as many tokens, the median over widths and loop counts.
  EXPECT_NEAR(1'047'183'360 / by_hand, 1.31, 0.01);
}

TEST(IsoDepthCounting, LanesCostEightWidthsALoopAndHardlyAParameter) {
  ModelConfig c = iso_depth(10, 4);
  c.reinjection = Reinjection::kNone;
  c.lanes = 2;
  EXPECT_EQ(IsoDepthCounting::parameters(c), 96 * 640 * 640 + 4 * (2 + 4 + 2));
  EXPECT_DOUBLE_EQ(IsoDepthCounting::training_flops_per_token(c, 2048, all_loops(4)),
                   1'047'183'360 - 6.0 * 4 * (2 * 640 * 640 - 8 * 640));
}

/// Growth, recursion, boundary operators: width 128 d, inner width 256 ceil(8 w / 3 / 256).
ModelConfig exponents(int64_t d, int64_t prelude, int64_t layers, int64_t coda, int64_t loops, bool tied) {
  ModelConfig c = dense(50304, 128 * d, prelude, layers, coda, loops);
  c.tied = tied;
  c.dense_intermediate = 256 * ((8 * c.hidden_size + 3 * 256 - 1) / (3 * 256));
  return c;
}

TEST(ExponentsCounting, StoredParametersOfEveryArm) {
  // d, P / L / C, and stored parameters of the ladders: one core (Vanilla, Operator-1, Loop-2, Loop-Grow), two (Deep
  // Vanilla, Untied-2), four (Deep-Vanilla-Grow, Untied-Grow). 0: not published. d22 and d24 were not published at all.
  struct Row {
    int64_t d, prelude, layers, coda, one, two, four;
  };
  const Row table[] = {
      {6, 2, 2, 2, 119'734'272, 133'890'048, 162'201'600},
      {8, 2, 3, 3, 205'783'040, 244'318'208, 321'388'544},
      {10, 3, 4, 3, 331'939'840, 413'204'480, 575'733'760},
      {12, 4, 4, 4, 494'272'512, 607'518'720, 834'011'136},
      {14, 4, 5, 5, 726'204'416, 921'174'016, 1'311'113'216},
      {16, 5, 6, 5, 1'028'128'768, 1'336'410'112, 1'952'972'800},
      {18, 6, 6, 6, 1'378'418'688, 1'760'624'640, 2'525'036'544},
      {20, 6, 7, 7, 1'843'527'680, 0, 0},
      {26, 8, 9, 9, 0, 0, 7'424'049'152},
  };
  for (const Row& row : table) {
    SCOPED_TRACE(testing::Message() << "d" << row.d);
    const auto stored = [&](int64_t loops, bool tied) {
      return ExponentsCounting::parameters(exponents(row.d, row.prelude, row.layers, row.coda, loops, tied));
    };
    if (row.one > 0) {
      EXPECT_EQ(stored(1, true), row.one);
      EXPECT_EQ(stored(4, true), row.one);
      EXPECT_EQ(ExponentsCounting::parameters(exponents(row.d, 0, row.d, 0, 1, true)), row.one);
    }
    if (row.two > 0) {
      EXPECT_EQ(stored(2, false), row.two);
      const int64_t depth = row.prelude + 2 * row.layers + row.coda;
      EXPECT_EQ(ExponentsCounting::parameters(exponents(row.d, 0, depth, 0, 1, true)), row.two);
    }
    if (row.four > 0) {
      EXPECT_EQ(stored(4, false), row.four);
    }
  }
}

TEST(ExponentsCounting, OperationsOfTheLadders) {
  const auto flops = [](const ModelConfig& c) {
    return ExponentsCounting::training_flops_per_token(c, 2048, all_loops(c.loops));
  };
  EXPECT_DOUBLE_EQ(flops(exponents(6, 0, 6, 0, 1, true)), 543'255'552);
  // Published compute divided by published tokens.
  EXPECT_NEAR(flops(exponents(8, 0, 8, 0, 1, true)), 1.0557507729327391e18 / 1'028'653'056, 1);
  EXPECT_NEAR(flops(exponents(8, 2, 3, 3, 1, true)), 1.267223787082875e18 / 1'234'698'240, 1);
  EXPECT_NEAR(flops(exponents(8, 2, 3, 3, 2, true)), 1.599330667588485e18 / 1'234'698'240, 1);
  EXPECT_NEAR(flops(exponents(18, 6, 6, 6, 2, false)), 1.1142942548863589e20 / 10'563'878'912, 20);
  // Loop-Grow at d8: 2101 of 2563 steps with 2 loops, 462 with 4.
  const ModelConfig grown = exponents(8, 2, 3, 3, 4, true);
  const double mean = (2101 * ExponentsCounting::training_flops_per_token(grown, 2048, all_loops(2)) +
                       462 * ExponentsCounting::training_flops_per_token(grown, 2048, all_loops(4))) /
                      2563;
  EXPECT_NEAR(mean, 1.8708922541895844e18 / 1'343'750'144, 1);
  // Ours is the same where no norm has a gain and nothing stands between the loops.
  EXPECT_DOUBLE_EQ(mean * 2563, 2101 * training_flops_per_token(grown, 2048, all_loops(2)).total() +
                                    462 * training_flops_per_token(grown, 2048, all_loops(4)).total());
}

/// The released LOOM sizes.
ModelConfig loom(int64_t layers, int64_t width, int64_t query_heads, int64_t expert_width, int64_t loops) {
  ModelConfig c;
  c.vocabulary_size = 49152;
  c.hidden_size = width;
  c.layers = layers;
  c.loops = loops;
  c.query_heads = query_heads;
  c.kv_heads = query_heads / 2;
  c.head_dim = 64;
  c.moe = {.experts = 30, .top_k = 6, .shared_experts = 2, .intermediate = expert_width};
  return c;
}

TEST(LoomCounting, LayersWithoutRoutersAreThoseOfTheRelease) {
  const auto layers = [](const ModelConfig& c) {
    const LayerCount core = count_parameters(c).core;
    return static_cast<double>(core.total() - core.routers) * 1e-6;
  };
  EXPECT_NEAR(layers(loom(10, 512, 8, 512, 9)), 262.15, 0.005);
  EXPECT_NEAR(layers(loom(15, 1280, 20, 768, 9)), 1513.90, 0.005);
}

TEST(LoomCounting, LoopsAddRoutersAloneToATiedCore) {
  const int64_t one = count_parameters(loom(10, 512, 8, 512, 1)).total();
  for (const int64_t loops : {3, 6, 9, 12}) {
    ModelConfig c = loom(10, 512, 8, 512, loops);
    EXPECT_EQ(count_parameters(c).total(), one + (loops - 1) * 10 * 30 * 512);
    c.moe.router = RouterSharing::kShared;
    EXPECT_EQ(count_parameters(c).total(), one);
  }
  for (const int64_t loops : {2, 8}) {
    ModelConfig c = iso_depth(10, 4);
    const int64_t before = count_parameters(c).total();
    c.loops = loops;
    EXPECT_EQ(count_parameters(c).total(), before);
    EXPECT_EQ(IsoDepthCounting::parameters(c), 40'140'800);
  }
}

TEST(IsoDepthCounting, ExpertsCountAllAsParametersAndTheChosenAsOperations) {
  // One layer by hand, D 4, heads 2 x 2, kv 1 x 2: attention with gate 3 16 + 2 8 = 64; router 24; an expert 36.
  ModelConfig c;
  c.vocabulary_size = 10;
  c.hidden_size = 4;
  c.layers = 1;
  c.loops = 5;
  c.query_heads = 2;
  c.kv_heads = 1;
  c.head_dim = 2;
  c.moe = {.experts = 6, .top_k = 2, .shared_experts = 1, .intermediate = 3};
  EXPECT_EQ(IsoDepthCounting::parameters(c), 64 + 5 * 24 + 7 * 36);
  // Segments of 3 loops: two passes through the head.
  EXPECT_DOUBLE_EQ(IsoDepthCounting::training_flops_per_token(c, 3, {5, 0, 2, 2}),
                   6 * (5 * (64 + 24 + 3 * 36) + 2 * 40) + 12 * 5 * 4 * 3);
  EXPECT_DOUBLE_EQ(ExponentsCounting::training_flops_per_token(c, 3, {5, 0, 2, 2}),
                   6 * (5 * (64 + 24 + 3 * 36) + 2 * 40) + 6 * 5 * 4 * 4);
}

}  // namespace
}  // namespace heddle
