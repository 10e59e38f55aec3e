// Training does not depend on the layout: the same global batches trained by one rank, by data parallel ranks, by ranks
// that split the experts, and in several micro-batches give the same choices, losses, gradients, norms and weights up
// to the rounding of sums. Every rank computes the one-rank reference by itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/distributed/world.h"
#include "tests/train/tiny_training.h"

namespace heddle {
namespace {

/// Sets of experts chosen for the rows of the global batch that a rank holds, by (row, loop, layer, position), and the
/// smallest distance between the worst chosen and the best other expert.
class Choices : public ForwardObserver {
 public:
  Choices(Training& training, int64_t step) : training_(training) {
    const ModelConfig& c = training.plan.model;
    of_row_.resize(static_cast<size_t>(training.plan.global_batch));
    const std::vector<TokenBatch> batches = training.batches(step);
    for (size_t i = 0; i < batches.size(); ++i) {
      range_ = training.rows[i];
      Tape tape(training.model.kernels(), Tape::Mode::kForwardOnly);
      Loom::Options options;
      options.observer = this;
      const Variable embedding = training.model.embed(tape, batches[i], options);
      LoopState state = Loom::start(embedding);
      training.model.run_loops(tape, batches[i], embedding, 0, c.loops, options, state);
    }
  }

  void on_block(const BlockView& view) override {
    const Tensor &index = view.routing.index, &scores = view.routing.scores;
    const int64_t k = index.dim(1), experts = scores.dim(1);
    const float* const bias = training_.model.balance_bias(view.layer).f32();
    for (int64_t r = 0; r < range_.count; ++r) {
      const int64_t slots = index.count() / range_.count;
      std::vector<int32_t>& list = of_row_[static_cast<size_t>(range_.first + r)];
      for (int64_t slot = r * slots; slot < (r + 1) * slots; slot += k) {
        list.insert(list.end(), index.i32() + slot, index.i32() + slot + k);
        std::sort(list.end() - k, list.end());
      }
    }
    for (int64_t n = 0; n < scores.dim(0); ++n) {
      std::vector<float> values;
      for (int64_t e = 0; e < experts; ++e) values.push_back(scores.f32()[n * experts + e] + bias[e]);
      std::sort(values.rbegin(), values.rend());
      const auto last = static_cast<size_t>(k - 1);
      smallest_gap_ = std::min(smallest_gap_, values[last] - values[last + 1]);
    }
    note_capacity_gaps(index, scores);
  }

  const std::vector<int32_t>& of_row(int64_t row) const { return of_row_[static_cast<size_t>(row)]; }
  float smallest_gap() const { return smallest_gap_; }
  /// Smallest distance between the last weight that an expert over its capacity keeps and the first that it drops;
  /// only of a model that sees all tokens in one micro-batch.
  float smallest_capacity_gap() const { return smallest_capacity_gap_; }

 private:
  void note_capacity_gaps(const Tensor& index, const Tensor& scores) {
    const MoeConfig& moe = training_.plan.model.moe;
    if (moe.capacity_factor <= 0 || training_.groups.world().size() > 1) return;
    const int64_t k = index.dim(1);
    std::vector<std::vector<float>> of_expert(static_cast<size_t>(moe.experts));
    for (int64_t n = 0; n < index.dim(0); ++n) {
      float sum = 0;
      const auto score = [&](int64_t j) { return scores.f32()[n * moe.experts + index.i32()[n * k + j]]; };
      for (int64_t j = 0; j < k; ++j) sum += score(j);
      for (int64_t j = 0; j < k; ++j) of_expert[static_cast<size_t>(index.i32()[n * k + j])].push_back(score(j) / sum);
    }
    const auto capacity = static_cast<size_t>(capacity_slots(moe.capacity_factor, index.dim(0), k, moe.experts));
    for (std::vector<float>& weights : of_expert) {
      if (weights.size() <= capacity) continue;
      std::sort(weights.rbegin(), weights.rend());
      smallest_capacity_gap_ = std::min(smallest_capacity_gap_, weights[capacity - 1] - weights[capacity]);
    }
  }

  Training& training_;
  RowRange range_;
  std::vector<std::vector<int32_t>> of_row_;
  float smallest_gap_ = std::numeric_limits<float>::infinity();
  float smallest_capacity_gap_ = std::numeric_limits<float>::infinity();
};

constexpr double kTolerance = 1e-5;

void expect_near(double found, double expected, const char* what, int64_t step) {
  EXPECT_LE(std::abs(found - expected), kTolerance * std::abs(expected))
      << what << " of step " << step << ": " << found << " against " << expected;
}

/// The part of a global tensor of the reference that `p` holds.
std::span<const float> same_part(const Parameter& p, const Tensor& global) {
  return std::span<const float>(global.f32() + p.global_offset(), static_cast<size_t>(p.value.count()));
}

void expect_same_tensors(Training& found, Training& expected, int64_t step) {
  for (const Parameter& p : found.model.parameters().all()) {
    const Parameter& reference = expected.model.parameters().find(p.name);
    ASSERT_EQ(p.has_gradient, reference.has_gradient) << p.name;
    if (p.has_gradient) {
      EXPECT_LE(relative_error(p.gradient.floats(), same_part(p, reference.gradient)), kTolerance)
          << "gradient of " << p.name << " in step " << step;
    }
    EXPECT_LE(relative_error(p.value.floats(), same_part(p, reference.value)), kTolerance)
        << "weights " << p.name << " after step " << step;
  }
  for (int64_t l = 0; l < found.plan.model.layers; ++l)
    EXPECT_EQ(relative_error(found.model.balance_bias(l).floats(), expected.model.balance_bias(l).floats()), 0);
}

void expect_same_step(Training& found, Training& expected, int64_t step) {
  const Choices mine(found, step), theirs(expected, step);
  ASSERT_GE(theirs.smallest_gap(), 1e-6F) << "two experts are too close in step " << step << " to compare layouts";
  ASSERT_GE(theirs.smallest_capacity_gap(), 1e-6F)
      << "two slots are too close to an expert's capacity in step " << step << " to compare layouts";
  for (const RowRange range : found.rows)
    for (int64_t row = range.first; row < range.first + range.count; ++row)
      ASSERT_EQ(mine.of_row(row), theirs.of_row(row)) << "choices of row " << row << " in step " << step;

  const StepResult result = found.run(step), reference = expected.run(step);
  EXPECT_EQ(result.counted_targets, reference.counted_targets);
  EXPECT_EQ(result.skipped, reference.skipped);
  for (size_t s = 0; s < reference.segment_loss.size(); ++s) {
    expect_near(result.segment_loss[s], reference.segment_loss[s], "loss", step);
    expect_near(result.gradient_norm[s], reference.gradient_norm[s], "gradient norm", step);
  }
  const RoutingStatistics &a = found.trainer.statistics(), &b = expected.trainer.statistics();
  EXPECT_EQ(a.loads(), b.loads());
  EXPECT_EQ(a.dropped(), b.dropped());
  EXPECT_EQ(a.overlap(), b.overlap());
  for (size_t t = 0; t < b.state_rms().size(); ++t) expect_near(a.state_rms()[t], b.state_rms()[t], "state RMS", step);
  expect_same_tensors(found, expected, step);
}

/// Trains on all ranks and on one, at every expert_parallel that divides the ranks.
void expect_same_training(const TrainingPlan& plan, int64_t micro_batch, int64_t reference_micro_batch) {
  for (int expert_parallel = 1; expert_parallel <= test_world().size(); expert_parallel *= 2) {
    SCOPED_TRACE(fmt::format("expert_parallel {}, micro-batch {}", expert_parallel, micro_batch));
    const auto single = make_single_communicator();
    Training reference(plan, *single, 1, reference_micro_batch);
    Training training(plan, test_world(), expert_parallel, micro_batch);
    for (int64_t step = 1; step <= plan.steps && !testing::Test::HasFailure(); ++step)
      expect_same_step(training, reference, step);
  }
}

TEST(TrainLayout, AdamwInSegmentsEqualsOneRank) {
  const TrainingPlan plan;
  expect_same_training(plan, plan.global_batch / test_world().size(), plan.global_batch);
}

TEST(TrainLayout, SgdThroughAllLoopsEqualsOneRank) {
  TrainingPlan plan;
  plan.step.segment_loops = 0;
  plan.optimizer.name = "sgd";
  plan.learning_rate = 0.05;
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
  plan.model.capacity_scope = "global";
  plan.model.validate();
  expect_same_training(plan, plan.global_batch / test_world().size(), plan.global_batch);
}

TEST(TrainLayout, GlobalCapacityReallyDrops) {
  TrainingPlan plan;
  plan.model.moe.capacity_factor = 1.1;
  plan.model.capacity_scope = "global";
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
