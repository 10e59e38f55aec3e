// Evaluation gives one answer at any number of ranks: targets equal, losses to rounding, also where the windows of the
// part do not divide and some ranks have none.
#include "train/evaluation.h"
#include "tests/distributed/shared_folder.h"
#include "tests/train/tiny_run.h"
#include "tests/train/tiny_training.h"

namespace heddle {
namespace {

TEST(DistributedEvaluation, EqualsOneRank) {
  const SharedFolder folder;
  if (test_world().rank() == 0) write_tiny_store(folder.path("store.h5"));
  test_world().barrier();
  const TokenStore store = TokenStore::open(folder.path("store.h5"));
  TrainingPlan plan;
  plan.model.vocabulary_size = store.vocabulary_size();
  const auto single = make_single_communicator();
  Training one(plan, *single, 1, plan.global_batch);
  EvaluationOptions options;
  options.sequence = 16;
  options.loops = {1, plan.model.loops};
  for (int expert_parallel = 1; expert_parallel <= test_world().size(); expert_parallel *= 2) {
    Training many(plan, test_world(), expert_parallel, 1);
    // 1 window: all ranks but one stay idle; 5: a remainder; 0: the whole part.
    for (const int64_t samples : {int64_t{1}, int64_t{5}, int64_t{0}})
      for (const int64_t micro_batch : {int64_t{1}, int64_t{3}}) {
        SCOPED_TRACE(
            fmt::format("expert parallel {}, {} windows, micro-batch {}", expert_parallel, samples, micro_batch));
        options.samples = samples;
        options.micro_batch = micro_batch;
        const std::vector<EvaluationResult> found = evaluate(many.model, store, Part::kValidation, options);
        const std::vector<EvaluationResult> expected = evaluate(one.model, store, Part::kValidation, options);
        ASSERT_EQ(found.size(), 2U);
        for (size_t i = 0; i < found.size(); ++i) {
          EXPECT_EQ(found[i].loops, expected[i].loops);
          EXPECT_EQ(found[i].targets, expected[i].targets);
          EXPECT_NEAR(found[i].nats_per_token, expected[i].nats_per_token, 1e-6 * expected[i].nats_per_token);
          EXPECT_NEAR(found[i].bits_per_byte, expected[i].bits_per_byte, 1e-6 * expected[i].bits_per_byte);
        }
      }
  }
}

}  // namespace
}  // namespace heddle
