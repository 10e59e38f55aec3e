// KL effective depth of planted curves and of a planted network.
#include "probe/depth.h"

#include "tests/probe/probe_scene.h"

namespace heddle {
namespace {

TEST(EffectiveDepth, IsTheFirstEntryBehindThePeakWithinTheThreshold) {
  EXPECT_EQ(effective_depth({1, 5, 9, 4, 2, 1, 0}, 2), 4);  // 2 itself counts; the 1 in front of the peak does not
  EXPECT_EQ(effective_depth({9, 1, 8, 1, 0}, 2), 1);
  EXPECT_EQ(effective_depth({1, 9, 8, 1, 0}, 2), 3);
  EXPECT_EQ(effective_depth({9, 9, 1}, 2), 2);
  EXPECT_EQ(effective_depth({1, 0.5, 0}, 2), 1) << "a curve that never exceeds the threshold";
  EXPECT_EQ(effective_depth({1, 3, 4}, 2), -1) << "a curve that peaks at its end";
  EXPECT_EQ(effective_depth({5, 3, 2.5}, 2), -1);
}

/// An untied core of five one-layer loops in which only core `working` (from 0) contributes, and turns the stream.
ModelConfig stack_of_five() {
  ModelConfig c = plain_dense();
  c.layers = 1;
  c.loops = 5;
  c.tied = false;
  return c;
}

void plant(ProbeScene& s, int working) {
  for (int t = 0; t < 5; ++t) {
    Parameter& down = s.parameter(fmt::format("core.{}.0.mlp.down_proj.weight", t));
    s.parameter(fmt::format("core.{}.0.attn.o_proj.weight", t)).value.fill_zero();
    down.value.fill_zero();
    if (t == working) down.value.copy_from(random_tensor(down.value.shape(), 31, 200));
  }
  Parameter& head = s.parameter("lm_head.weight");
  head.value.copy_from(random_tensor(head.value.shape(), 32, 2));
}

TEST(EffectiveDepth, OfANetworkInWhichOneBlockWorksIsThatBlock) {
  for (const int working : {0, 1, 3}) {
    ProbeScene s(stack_of_five());
    plant(s, working);
    const DepthCurve curve = probe_depth(*s.model, s.documents());
    ASSERT_EQ(curve.entries.size(), 6U);
    for (int entry = 0; entry < 6; ++entry) {
      const Estimate kl = curve.entries[static_cast<size_t>(entry)].kl;
      if (entry <= working)
        EXPECT_GT(kl.mean, 4) << entry;
      else
        EXPECT_NEAR(kl.mean, 0, 1e-9) << entry;
    }
    EXPECT_EQ(curve.peak, 0);
    EXPECT_EQ(curve.effective_depth, working + 1);
  }
}

TEST(DepthCurve, NamesTheBlocksAndEndsAtTheLossOfTheModel) {
  ModelConfig c = plain_dense();
  c.prelude_layers = c.coda_layers = 1;
  c.loops = 2;
  ProbeScene s(c);
  const ProbeDocuments documents = s.documents(3, 2, 100);  // rows longer than one chunk of logits
  const DepthCurve curve = probe_depth(*s.model, documents);
  std::vector<std::string> names;
  for (const DepthEntry& e : curve.entries) names.push_back(fmt::format("{} {} {}", e.part, e.loop, e.layer));
  EXPECT_EQ(names, (std::vector<std::string>{"embedding -1 -1", "prelude -1 0", "core 0 0", "core 0 1", "core 1 0",
                                             "core 1 1", "coda -1 0"}));
  double sum = 0;
  for (const DocumentBatch& batch : documents.batches()) {
    Tape tape = s.model->tape(Tape::Mode::kForwardOnly);
    const Variable e = s.model->embed(tape, batch.tokens, {});
    LoopState state = s.model->start(batch.tokens, e);
    s.model->run_loops(tape, batch.tokens, e, 0, 2, {}, state);
    sum += s.model->loss(tape, s.model->read_out(tape, batch.tokens, e, state, {}), batch.tokens, 0).cross_entropy;
  }
  EXPECT_NEAR(curve.entries.back().kl.mean, 0, 1e-6);
  EXPECT_NEAR(curve.entries.back().loss.mean, sum / static_cast<double>(documents.total_tokens()), 1e-5);
  EXPECT_GT(curve.entries.front().kl.mean, 1e-3);
}

}  // namespace
}  // namespace heddle
