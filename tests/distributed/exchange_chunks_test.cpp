// Tokens that travel to their experts in parts give the training of tokens that travel together.
#include <gtest/gtest.h>

#include "tests/distributed/same_training.h"
#include "tests/train/family_points.h"

namespace heddle {
namespace {

TEST(ExchangeChunks, GiveTheTrainingOfOneRank) {
  for (const NamedPlan& point : family_points()) {
    if (!point.plan.model.any_moe()) continue;
    SCOPED_TRACE(point.name);
    TrainingPlan plan = point.plan;
    // One step where rounding grows: a slot at an expert's limit may fall either way, and the gradient of hyper.mix,
    // whose terms cancel, differs by 1.2e-5 after an update, in whatever number of parts.
    plan.steps = plan.model.moe.capacity_factor > 0 || plan.model.lanes > 0 ? 1 : 3;
    plan.model.moe.capacity_scope = CapacityScope::kGlobal;
    // 32 tokens in a micro-batch: parts of 10 and 11. The reference takes the rows of a micro-step of all ranks at
    // once.
    plan.exchange_chunks = 3;
    expect_same_training(plan, 2, 2 * test_world().size());
  }
}

TEST(ExchangeChunks, MayBeMoreThanTokensOrExpertsThatAreChosen) {
  TrainingPlan plan;
  plan.steps = 2;
  plan.sequence = 3;
  plan.exchange_chunks = 8;
  expect_same_training(plan, 2, 2 * test_world().size());
  plan.favoured = {0, 1};
  expect_same_training(plan, 2, 2 * test_world().size());
}

TEST(ExchangeChunks, RepeatToTheBit) {
  TrainingPlan plan;
  plan.exchange_chunks = 2;
  Training first(plan, test_world(), 2, 2), again(plan, test_world(), 2, 2);
  for (int64_t step = 1; step <= 3; ++step) {
    const StepResult a = first.run(step), b = again.run(step);
    ASSERT_EQ(a.gradient_norm, b.gradient_norm);
    ASSERT_EQ(a.segment_loss, b.segment_loss);
  }
}

}  // namespace
}  // namespace heddle
