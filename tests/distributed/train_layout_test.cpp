// Training does not depend on the layout: the same global batches trained by one rank, by data parallel ranks, by ranks
// that split the experts, and in several micro-batches give the same choices, losses, gradients, norms and weights up
// to the rounding of sums. Every rank computes the one-rank reference by itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include "optim/gradients.h"

#include "tests/distributed/same_training.h"

namespace heddle {
namespace {

TEST(EveryLayout, AndOptimizerAndZeroEqualsOneRankInFourMicroBatches) {
  const auto single = make_single_communicator();
  for (const char* name : {"adamw", "sgd", "muon", "muonh"}) {
    SCOPED_TRACE(name);
    TrainingPlan plan = plan_with(name);
    Training reference(plan, *single, 1, 2);
    std::vector<std::unique_ptr<Training>> trainings;
    std::vector<Training*> all;
    for (const bool zero : {false, true}) {
      for (int expert_parallel = 1; expert_parallel <= test_world().size(); expert_parallel *= 2) {
        plan.optimizer.zero = zero;
        trainings.push_back(std::make_unique<Training>(plan, test_world(), expert_parallel, 2));
        all.push_back(trainings.back().get());
      }
    }
    int64_t choices = 0;
    for (int64_t step = 1; step <= plan.steps && all_ranks(test_world(), !HasFailure()); ++step) {
      choices += Choices(reference, step).count();
      expect_same_step(all, reference, step);
    }
    EXPECT_GT(choices, 10000);
    EXPECT_LT(choices, 20000) << "so many that two experts may well lie within 1e-6 of each other";
  }
}

TEST(TrainLayout, ZeroGivesTheVeryBitsOfTheSameLayoutWithoutIt) {
  for (const char* name : {"adamw", "sgd", "muon", "muonh"}) {
    for (int expert_parallel = 1; expert_parallel <= test_world().size(); expert_parallel *= 2) {
      SCOPED_TRACE(fmt::format("{}, expert_parallel {}", name, expert_parallel));
      TrainingPlan plan = plan_with(name);
      Training without(plan, test_world(), expert_parallel, 2), again(plan, test_world(), expert_parallel, 2);
      plan.optimizer.zero = true;
      Training with(plan, test_world(), expert_parallel, 2);
      int64_t owned = 0, held = 0;
      for (int64_t step = 1; step <= plan.steps; ++step) {
        const StepResult a = without.run(step), b = with.run(step), c = again.run(step);
        ASSERT_EQ(a.gradient_norm, b.gradient_norm) << "step " << step;
        ASSERT_EQ(a.segment_loss, b.segment_loss) << "step " << step;
        ASSERT_EQ(a.gradient_norm, c.gradient_norm) << "step " << step;
      }
      for (size_t i = 0; i < with.optimizer.states().size(); ++i) {
        const Parameter &p = with.model.parameters().all()[i], &q = without.model.parameters().all()[i];
        ASSERT_EQ(std::memcmp(p.value.f32(), q.value.f32(), static_cast<size_t>(p.value.bytes())), 0) << p.name;
        const Optimizer::State &mine = with.optimizer.states()[i], &whole = without.optimizer.states()[i];
        const auto parts = with.optimizer.state_tensors(p), wholes = without.optimizer.state_tensors(q);
        ASSERT_EQ(parts.size(), wholes.size());
        for (size_t k = 0; k < parts.size(); ++k) {
          const float* const expected = wholes[k].values.f32() + (parts[k].first - wholes[k].first);
          ASSERT_EQ(std::memcmp(parts[k].values.f32(), expected, static_cast<size_t>(parts[k].values.bytes())), 0)
              << parts[k].kind << ' ' << p.name;
        }
        ASSERT_EQ(mine.steps, whole.steps) << p.name;
        owned += mine.owned.count;
        held += whole.owned.count;
      }
      // Every element has one owner among the ranks that hold it.
      int64_t totals[2] = {owned, held};
      test_world().all_reduce_sum(std::span<int64_t>(totals));
      EXPECT_EQ(totals[0], with.model.parameters().global_count());
      EXPECT_GT(totals[1], totals[0]);
    }
  }
}

TEST(TrainLayout, ExpertsAreDistinctAndEqualAtEveryLayoutBeforeTheFirstStep) {
  const TrainingPlan plan;
  const auto single = make_single_communicator();
  Training reference(plan, *single, 1, plan.global_batch);
  for (int expert_parallel = 1; expert_parallel <= test_world().size(); expert_parallel *= 2) {
    Training training(plan, test_world(), expert_parallel, 2);
    size_t i = 0;
    for (const Parameter& p : training.model.parameters().all()) {
      const Parameter& whole = reference.model.parameters().all()[i++];
      EXPECT_EQ(std::memcmp(p.value.f32(), whole.value.f32() + p.global_offset(), static_cast<size_t>(p.value.bytes())),
                0)
          << p.name;
      if (p.sharing != Sharing::kExpert) continue;
      for (int64_t e = 1; e < whole.value.dim(0); ++e)
        EXPECT_GT(relative_error(whole.value.rows(e, 1).floats(), whole.value.rows(0, 1).floats()), 1) << p.name;
    }
  }
}

TEST(TrainLayout, TheNormOfOnesIsTheRootOfTheParameterCountAtEveryLayout) {
  for (const bool zero : {false, true}) {
    for (int expert_parallel = 1; expert_parallel <= test_world().size(); expert_parallel *= 2) {
      TrainingPlan plan;
      plan.optimizer.zero = zero;
      plan.optimizer.zero_block = 64;
      Training training(plan, test_world(), expert_parallel, 2);
      ParameterSet& parameters = training.model.parameters();
      for (Parameter& p : parameters.all()) {
        std::fill_n(p.gradient.f32(), p.gradient.count(), 1.0F);
        p.has_gradient = true;
      }
      EXPECT_DOUBLE_EQ(gradient_norm(parameters, training.groups, training.optimizer.shards(), cpu::kernels()),
                       std::sqrt(static_cast<double>(parameters.global_count())))
          << "zero " << zero << ", expert_parallel " << expert_parallel;
    }
  }
}

TEST(TrainLayout, ExpertGradientsAreNotScaledByTheLayout) {
  // One step of plain SGD with rate 1: a factor in a gradient would be one in the weights. Adam would hide it.
  TrainingPlan plan;
  plan.steps = 1;
  plan.step.back_propagation = {};
  plan.step.clip_norm = 0;
  plan.optimizer = {.name = "sgd", .learning_rate = 1, .momentum = 0, .weight_decay = 0};
  expect_same_training(plan, 2, plan.global_batch);
}

TEST(TrainLayout, ATrainingStepSendsTheFewestBytesThatItsRoutingAllows) {
  TrainingPlan plan;
  plan.step.back_propagation = {};  // all visits with the weights that the choices below are made with
  const int ranks = test_world().size();
  Training training(plan, test_world(), ranks, plan.global_batch / ranks);
  const ModelConfig& c = plan.model;
  const Choices choices(training, 1);
  int64_t rows = 0, slots = 0;  // to other ranks, over all visits
  for (const RowRange range : training.rows) {
    for (int64_t row = range.first; row < range.first + range.count; ++row) {
      const std::vector<int32_t>& list = choices.of_row(row);
      for (size_t at = 0; at < list.size(); at += static_cast<size_t>(c.moe.top_k)) {
        std::set<int64_t> destinations;
        for (int64_t j = 0; j < c.moe.top_k; ++j) {
          const int64_t owner = list[at + static_cast<size_t>(j)] / (c.moe.experts / ranks);
          if (owner == test_world().rank()) continue;
          destinations.insert(owner);
          ++slots;
        }
        rows += static_cast<int64_t>(destinations.size());
      }
    }
  }
  const int64_t before = training.groups.expert_parallel().traffic().exchange_bytes;
  training.run(1);
  int64_t totals[3] = {rows, slots, training.groups.expert_parallel().traffic().exchange_bytes - before};
  test_world().all_reduce_sum(std::span<int64_t>(totals));
  // A row travels out and back, forward and backward; with each slot go its row number and weight, and its weight's
  // gradient comes back.
  EXPECT_EQ(totals[2], totals[0] * 4 * c.hidden_size * 4 + totals[1] * (8 + 4));
  EXPECT_LT(totals[0], totals[1]) << "no token has two experts on one rank: the case shows nothing";
}

TEST(TrainLayout, OneRankGetsEveryTokenAndThenNone) {
  TrainingPlan plan;
  const int64_t experts = plan.model.moe.experts, per_rank = experts / test_world().size();
  std::vector<int64_t> of_first, of_last;
  for (int64_t e = 0; e < per_rank; ++e) of_first.push_back(e), of_last.push_back(experts - per_rank + e);
  const auto single = make_single_communicator();
  Training reference(plan, *single, 1, plan.global_batch);
  Training training(plan, test_world(), test_world().size(), plan.global_batch / test_world().size());
  for (int64_t step = 1; step <= 6 && all_ranks(test_world(), !HasFailure()); ++step) {
    for (Training* t : {&reference, &training}) t->favour(step % 2 == 1 ? of_first : of_last);
    expect_same_step({&training}, reference, step);
    int64_t mine = 0;
    for (int64_t l = 0; l < plan.model.layers; ++l)
      for (int64_t e = 0; e < per_rank; ++e)
        mine += training.trainer.statistics().stored_load(l)[static_cast<size_t>(test_world().rank() * per_rank + e)];
    const bool busy = test_world().rank() == (step % 2 == 1 ? 0 : test_world().size() - 1);
    EXPECT_EQ(mine, busy ? plan.model.layers * plan.model.loops * plan.global_batch * plan.sequence * 2 : 0);
  }
}

TEST(TrainLayout, RiggedGatesEqualOneRank) {
  for (const Gate gate : {Gate::kUniform, Gate::kFirst}) {
    TrainingPlan plan;
    plan.steps = 3;
    plan.model.moe.gate = gate;
    expect_same_training(plan, plan.global_batch, plan.global_batch);
  }
}

TEST(TrainLayout, RanksWithUnevenTokensFinishLikeOneRank) {
  // On 4 ranks 96, 96, 96 and 40 tokens; on 2 ranks 96 and 40.
  TrainingPlan plan;
  plan.steps = 3;
  plan.sequence = 8;
  plan.global_batch = 12 * (test_world().size() - 1) + 5;
  expect_same_training(plan, 12, plan.global_batch);
}

TEST(TrainLayout, TiedScoresGoToTheLowestExpertsAtEveryLayout) {
  TrainingPlan plan;
  const int64_t tokens = plan.global_batch * plan.sequence;
  for (int expert_parallel = 1; expert_parallel <= test_world().size(); expert_parallel *= 2) {
    Training training(plan, test_world(), expert_parallel, 2);
    for (Parameter& p : training.model.parameters().all())
      if (p.name.find("routers") != std::string::npos) p.value.fill_zero();
    training.run(1);
    // Segment 0 saw untouched routers.
    for (int64_t loop = 0; loop < 2; ++loop)
      for (int64_t layer = 0; layer < plan.model.layers; ++layer)
        for (int64_t e = 0; e < plan.model.moe.experts; ++e)
          EXPECT_EQ(training.trainer.statistics().load(loop, layer, e), e < 2 ? tokens : 0);
  }
}

TEST(TrainLayout, MemoryIsAskedForOnlyAtANewMaximumOfRows) {
  TrainingPlan plan;
  const int ranks = test_world().size();
  for (const Gate gate : {Gate::kUniform, Gate::kLearned}) {
    plan.model.moe.gate = gate;
    Training training(plan, test_world(), ranks, plan.global_batch / ranks);
    for (int64_t step = 1; step <= 3; ++step) training.run(step);
    for (int64_t step = 4; step <= 20; ++step) {
      const std::vector<RowMarks> marks = training.model.row_marks();
      const int64_t requests = Allocator::host().use().system_requests;
      training.run(step);
      if (marks == training.model.row_marks()) {
        EXPECT_EQ(Allocator::host().use().system_requests, requests) << "step " << step;
      } else {
        EXPECT_EQ(gate, Gate::kLearned) << "step " << step;
      }
    }
  }
}

TEST(TrainLayout, AdamwInSegmentsEqualsOneRank) {
  const TrainingPlan plan;
  expect_same_training(plan, plan.global_batch / test_world().size(), plan.global_batch);
}

TEST(TrainLayout, SgdThroughAllLoopsEqualsOneRank) {
  TrainingPlan plan;
  plan.step.back_propagation = {};
  plan.optimizer.name = "sgd";
  plan.optimizer.learning_rate = 0.05;
  expect_same_training(plan, plan.global_batch / test_world().size(), plan.global_batch);
}

TEST(TrainLayout, AccumulationEqualsOneMicroBatch) {
  TrainingPlan plan;
  plan.steps = 5;
  expect_same_training(plan, 1, plan.global_batch);
}

TEST(TrainLayout, UnevenRowsEqualOneRank) {
  TrainingPlan plan;
  plan.steps = 5;
  plan.global_batch = 2 * test_world().size() + 1;
  expect_same_training(plan, 2, plan.global_batch);
}

TEST(TrainLayout, ARankWithoutRowsTakesPart) {
  TrainingPlan plan;
  plan.steps = 5;
  plan.global_batch = 3;
  expect_same_training(plan, 3, plan.global_batch);
}

TEST(TrainLayout, WithoutRenormalisationOrSharedExpertsEqualsOneRank) {
  TrainingPlan plan;
  plan.steps = 5;
  plan.model.moe.renormalise = false;
  plan.model.moe.shared_experts = 0;
  plan.model.moe.top_k = 3;
  expect_same_training(plan, plan.global_batch / test_world().size(), plan.global_batch);
}

TEST(TrainLayout, GlobalCapacityDropsTheSameTokens) {
  TrainingPlan plan;
  plan.steps = 1;  // in the batch of step 2 two rows start alike: two slots of one weight at an expert's limit
  plan.model.moe.capacity_factor = 1.1;
  plan.model.moe.capacity_scope = CapacityScope::kGlobal;
  plan.model.validate();
  expect_same_training(plan, plan.global_batch / test_world().size(), plan.global_batch);
}

TEST(TrainLayout, GlobalCapacityReallyDrops) {
  TrainingPlan plan;
  plan.model.moe.capacity_factor = 1.1;
  plan.model.moe.capacity_scope = CapacityScope::kGlobal;
  plan.model.validate();
  Training training(plan, test_world(), test_world().size(), plan.global_batch / test_world().size());
  training.run(1);
  const std::vector<int64_t>& dropped = training.trainer.statistics().dropped();
  EXPECT_TRUE(std::any_of(dropped.begin(), dropped.end(), [](int64_t n) { return n > 0; }));
}

TEST(TrainLayout, ExpertsOfOneRankTakeAllTokensAndIdleOnesGetZero) {
  TrainingPlan plan;
  plan.steps = 5;
  const int64_t experts = plan.model.moe.experts, per_rank = experts / test_world().size();
  for (int64_t e = experts - per_rank; e < experts; ++e) plan.favoured.push_back(e);
  expect_same_training(plan, plan.global_batch / test_world().size(), plan.global_batch);

  Training training(plan, test_world(), test_world().size(), plan.global_batch / test_world().size());
  for (Parameter& p : training.model.parameters().all())
    std::fill_n(p.gradient.f32(), p.gradient.count(), std::numeric_limits<float>::quiet_NaN());
  training.run(1);
  int64_t idle = 0;
  for (const Parameter& p : training.model.parameters().all()) {
    if (p.sharing != Sharing::kExpert) continue;
    const int64_t layer = p.name[5] - '0';
    for (int64_t e = 0; e < p.value.dim(0); ++e) {
      // Segment 1, the last one, visits loops 2 and 3.
      const RoutingStatistics& s = training.trainer.statistics();
      if (s.load(2, layer, p.first + e) + s.load(3, layer, p.first + e) > 0) continue;
      ++idle;
      const std::span<const float> gradient = p.gradient.rows(e, 1).floats();
      EXPECT_TRUE(std::all_of(gradient.begin(), gradient.end(), [](float g) { return g == 0; }))
          << p.name << ", expert " << p.first + e;
    }
  }
  if (test_world().rank() == 0) {
    EXPECT_EQ(idle, plan.model.layers * 3 * per_rank) << "rank 0 should have no work at all";
  }
}

}  // namespace
}  // namespace heddle
