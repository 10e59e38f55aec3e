// Evaluation is exact: over remainders, whatever the micro-batch, and equal to the loss taken token by token.
#include "train/evaluation.h"

#include <cmath>
#include <numbers>

#include "tests/data/temporary_folder.h"
#include "tests/train/tiny_run.h"
#include "tests/train/tiny_training.h"
#include "train/generation.h"

namespace heddle {
namespace {

EvaluationOptions options_of(int64_t micro_batch, int64_t samples, bool document_mask) {
  EvaluationOptions options;
  options.sequence = 16;
  options.micro_batch = micro_batch;
  options.samples = samples;
  options.document_mask = document_mask;
  return options;
}

struct Scene {
  Scene() {
    write_tiny_store(folder.path("store.h5"));
    store = TokenStore::open(folder.path("store.h5"));
    TrainingPlan plan;
    plan.model.vocabulary_size = 257;
    training = std::make_unique<Training>(plan, *world, 1, 8);
    for (int64_t step = 1; step <= 3; ++step) training->run(step);
  }
  EvaluationResult evaluate(EvaluationOptions options) {
    return heddle::evaluate(training->model, store, Part::kValidation, options).front();
  }
  TemporaryFolder folder;
  std::unique_ptr<Communicator> world = make_single_communicator();
  TokenStore store;
  std::unique_ptr<Training> training;
};

TEST(Evaluation, CountsEveryTargetOnceAtAnyMicroBatch) {
  Scene s;
  EvaluationOptions options = options_of(1, 0, false);
  const EvaluationResult one = s.evaluate(options);
  EXPECT_EQ(one.targets, s.store.tokens(Part::kValidation) - 1);
  for (const int64_t micro_batch : {2, 3, 4, 5, 100}) {
    options.micro_batch = micro_batch;
    const EvaluationResult many = s.evaluate(options);
    EXPECT_EQ(many.targets, one.targets);
    EXPECT_NEAR(many.nats_per_token, one.nats_per_token, 1e-6 * one.nats_per_token) << micro_batch;
    EXPECT_NEAR(many.bits_per_byte, one.bits_per_byte, 1e-6 * one.bits_per_byte) << micro_batch;
  }
}

TEST(Evaluation, BitsPerByteAreOverTheTextOfTheTargets) {
  Scene s;
  const EvaluationResult r = s.evaluate(options_of(8, 0, true));
  // Two documents: with the mask the second's first byte is no target; the first byte of all never is. End marks are
  // targets without bytes.
  const int64_t bytes = s.store.text_bytes(Part::kValidation) - 2;
  EXPECT_EQ(r.targets, bytes + 2);
  EXPECT_NEAR(r.bits_per_byte,
              r.nats_per_token * static_cast<double>(r.targets) / std::numbers::ln2 / static_cast<double>(bytes), 1e-9);
}

TEST(Evaluation, SamplesAreTheFirstWindows) {
  Scene s;
  const EvaluationResult first = s.evaluate(options_of(2, 3, false));
  EXPECT_EQ(first.targets, 48);
  const EvaluationResult all = s.evaluate(options_of(8, 1000, false));
  EXPECT_EQ(all.targets, s.store.tokens(Part::kValidation) - 1);
}

TEST(Evaluation, OnePassForSeveralDepthsEqualsSeparatePasses) {
  Scene s;
  LoopedModel& model = s.training->model;
  EvaluationOptions options = options_of(8, 0, true);
  for (const DepthRule rule : {DepthRule::kTrained, DepthRule::kRescaled}) {
    options.rule = rule;
    options.loops = {4, 1, 2};
    const std::vector<EvaluationResult> together = evaluate(model, s.store, Part::kValidation, options);
    ASSERT_EQ(together.size(), 3U);
    for (const EvaluationResult& r : together) {
      options.loops = {r.loops};
      const EvaluationResult alone = evaluate(model, s.store, Part::kValidation, options).front();
      EXPECT_DOUBLE_EQ(alone.nats_per_token, r.nats_per_token) << r.loops << " loops";
    }
    EXPECT_EQ(together[0].loops, 1);
    EXPECT_NE(together[0].nats_per_token, together[2].nats_per_token);
  }
}

TEST(Evaluation, LeavesWeightsAndBalanceAlone) {
  Scene s;
  std::vector<Tensor> before;
  for (const Parameter& p : s.training->model.parameters().all()) before.push_back(p.value.clone());
  s.evaluate(options_of(8, 0, true));
  size_t i = 0;
  for (const Parameter& p : s.training->model.parameters().all())
    EXPECT_EQ(relative_error(p.value.floats(), before[i++].floats()), 0) << p.name;
}

TEST(Generation, IsAFunctionOfTheSeedAndStopsAtTheMark) {
  Scene s;
  GenerationOptions options;
  options.tokens = 12;
  options.temperature = 1;
  options.top_k = 0;
  options.seed = 4;
  options.context = 8;
  const std::vector<int64_t> prompt{72, 101};
  const std::vector<int64_t> first = generate(s.training->model, prompt, options);
  EXPECT_EQ(first.size(), 12U);
  EXPECT_EQ(generate(s.training->model, prompt, options), first);
  options.seed = 5;
  EXPECT_NE(generate(s.training->model, prompt, options), first);
  options.seed = 4;
  options.stop_token = first[5];
  EXPECT_LE(generate(s.training->model, prompt, options).size(), 6U);
}

}  // namespace
}  // namespace heddle
