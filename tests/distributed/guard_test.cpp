// The guard over collective calls: silent where all ranks do the same, and naming the first difference where they do
// not.
#include "comm/collective_guard.h"

#include "tests/data/temporary_folder.h"
#include "tests/distributed/world.h"
#include "tests/train/tiny_training.h"

namespace heddle {
namespace {

TEST(CollectiveGuard, NamesTheOperationTheSizeAndThePlaceOfTheFirstDifference) {
  const auto world = guard_collectives(test_world());
  collective_place() = {.step = 7, .segment = 1, .loop = 3, .layer = 0, .phase = "backward"};
  std::vector<double> values(test_world().rank() == 1 ? 3 : 2);
  world->barrier();
  expect_error<Error>(
      [&] { world->all_reduce_sum(std::span<double>(values)); },
      "rank 0: call 2 at step 7, segment 1, loop 3, layer 0, backward: all_reduce_sum of float64 [2] on "
      "world; rank 1: call 2 at step 7, segment 1, loop 3, layer 0, backward: all_reduce_sum of float64 "
      "[3]");
  expect_error<Error>(
      [&] {
        if (test_world().rank() == 0)
          world->barrier();
        else
          all_ranks(*world, true);
      },
      "barrier on world");
  collective_place() = {};
}

TEST(CollectiveGuard, ACallThatOneRankLeavesOutIsSeenAtTheNextOne) {
  const auto world = guard_collectives(test_world());
  const auto part = world->split(0);
  double number = 1;
  expect_error<Error>(
      [&] {
        if (test_world().rank() != 0) part->all_reduce_sum(std::span<double>(&number, 1));
        world->barrier();
        world->barrier();
      },
      "on world part 1");
}

TEST(CollectiveGuard, TrainingPassesAtEveryLayoutWithEqualBits) {
  for (const bool zero : {false, true}) {
    for (int expert_parallel = 1; expert_parallel <= test_world().size(); expert_parallel *= 2) {
      TrainingPlan plan;
      plan.global_batch = 2 * test_world().size() + 1;  // ranks with uneven rows
      plan.model.moe.capacity_factor = 1.1;
      plan.model.moe.capacity_scope = CapacityScope::kGlobal;
      plan.optimizer.zero = zero;
      plan.optimizer.zero_block = 64;
      const auto world = guard_collectives(test_world());
      Training guarded(plan, *world, expert_parallel, 2), plain(plan, test_world(), expert_parallel, 2);
      for (int64_t step = 1; step <= 3; ++step) {
        collective_place().step = step;
        EXPECT_EQ(guarded.run(step).gradient_norm, plain.run(step).gradient_norm);
      }
    }
  }
  collective_place() = {};
}

}  // namespace
}  // namespace heddle
