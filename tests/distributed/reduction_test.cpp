// Gradients that ranks begin to sum during the backward pass have the bits of those that are summed after it.
#include <gtest/gtest.h>

#include <cstring>

#include "optim/gradients.h"
#include "tests/distributed/world.h"
#include "tests/train/family_points.h"

namespace heddle {
namespace {

/// Trains three steps in two micro-batches with both buckets and compares.
void expect_same_bits(TrainingPlan plan, int expert_parallel) {
  constexpr int64_t kAllAtOnce = int64_t{1} << 40;
  plan.global_batch = 4 * test_world().size();
  plan.step.reduction_bucket = kAllAtOnce;
  Training after(plan, test_world(), expert_parallel, 2);
  plan.step.reduction_bucket = 0;
  Training during(plan, test_world(), expert_parallel, 2);
  for (int64_t step = 1; step <= 3; ++step) {
    const StepResult a = after.run(step), b = during.run(step);
    // As text: pieces that have no update of their own have no norm.
    const auto text = [](const std::vector<double>& numbers) { return fmt::format("{}", fmt::join(numbers, " ")); };
    ASSERT_EQ(text(a.gradient_norm), text(b.gradient_norm)) << "step " << step;
    ASSERT_EQ(text(a.segment_loss), text(b.segment_loss)) << "step " << step;
  }
  for (size_t i = 0; i < after.model.parameters().all().size(); ++i) {
    const Parameter &p = after.model.parameters().all()[i], &q = during.model.parameters().all()[i];
    ASSERT_EQ(p.has_gradient, q.has_gradient) << p.name;
    EXPECT_EQ(std::memcmp(p.value.f32(), q.value.f32(), static_cast<size_t>(p.value.bytes())), 0) << p.name;
  }
}

TEST(GradientReduction, DuringTheBackwardPassGivesTheBitsOfAfterIt) {
  int turn = 0;
  for (const NamedPlan& point : family_points()) {
    const bool segments = point.plan.step.loop_weights.empty();
    std::vector<BackPropagation> schedules = {{}, {BackPropagationMode::kCheckpointed, 2, true}};
    if (point.plan.model.lanes == 0) schedules.push_back({BackPropagationMode::kTruncated, 2, true});
    if (segments) schedules.push_back(in_segments(2));
    if (segments) schedules.push_back({BackPropagationMode::kSegmented, 2, false});
    for (const BackPropagation& schedule : schedules) {
      SCOPED_TRACE(fmt::format("{}, {} of {}", point.name, kBackPropagationModes(schedule.mode), schedule.loops));
      TrainingPlan plan = point.plan;
      plan.step.back_propagation = schedule;
      plan.optimizer.zero = ++turn % 2 == 0;
      plan.optimizer.zero_block = 64;
      // Where experts are split, their gradients stay on their ranks; otherwise all ranks sum them.
      expect_same_bits(plan, plan.model.any_moe() && turn % 3 == 0 ? 2 : 1);
    }
  }
}

TEST(GradientReduction, RefusesToAddToWhatIsBeingSummed) {
  TrainingPlan plan;
  Training training(plan, test_world(), 1, 2);
  ParameterSet& parameters = training.model.parameters();
  Parameter& p = parameters.all().front();
  GradientReduction reduction(parameters, training.optimizer.shards(), 0);
  Tape tape(cpu::kernels());
  tape.set_listener(&reduction);
  const Variable first = tape.parameter(p), again = tape.parameter(p);
  EXPECT_EQ(first.slot->parameter, again.slot->parameter);
  const RealsGradient out = gradient_out(first.slot);
  EXPECT_FALSE(out.accumulate);
  std::fill_n(p.gradient.f32(), p.gradient.count(), 1.0F);
  tape.backward();
  EXPECT_TRUE(p.summed);
  EXPECT_THROW(gradient_out(first.slot), std::logic_error);
  reduction.finish();
  EXPECT_EQ(p.gradient.f32()[0], static_cast<float>(test_world().size()));
  parameters.clear_gradients();
  EXPECT_NO_THROW(gradient_out(first.slot));
}

}  // namespace
}  // namespace heddle
