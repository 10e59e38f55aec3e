// Trainings on GPUs held against the CPU, and against each other.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "device/device.h"
#include "tests/distributed/same_training.h"

namespace heddle {
namespace {

class CudaTraining : public testing::Test {
 protected:
  std::unique_ptr<OpenDevice> device_ = open_device(test_job(), "cuda");
  std::unique_ptr<Communicator> alone_ = make_single_communicator();

  std::unique_ptr<Training> on_cpu(const TrainingPlan& plan) {
    const ScopedAllocator scope(Allocator::host());
    return std::make_unique<Training>(plan, *alone_, 1, plan.global_batch);
  }
  std::unique_ptr<Training> on_gpus(TrainingPlan plan, int expert_parallel, bool zero = false,
                                    DType activations = DType::kFloat32) {
    plan.optimizer.zero = zero;
    return std::make_unique<Training>(plan, test_world(), expert_parallel, plan.global_batch / test_world().size(),
                                      device_->kernels(), activations);
  }

  /// Every layout of the ranks against one rank on a CPU, and against experts that are not split.
  void expect_same_as_cpu(TrainingPlan plan) {
    plan.optimizer.zero_block = 64;
    plan.look = true;
    const auto reference = on_cpu(plan);
    std::vector<std::unique_ptr<Training>> trainings;
    std::vector<Training*> all, split;
    for (int width = 1; width <= test_world().size(); width *= 2) {
      trainings.push_back(on_gpus(plan, width, width > 1));
      all.push_back(trainings.back().get());
      if (width > 1) split.push_back(trainings.back().get());
    }
    for (int64_t step = 1; step <= plan.steps && all_ranks(test_world(), !HasFailure()); ++step) {
      expect_same_step(all, *reference, step, 1e-4);
      for (Training* const training : split) expect_same_tensors(*training, *all.front(), step, 1e-5);
    }
  }
};

TEST_F(CudaTraining, TwentyStepsEqualTheCpu) {
  TrainingPlan plan;
  plan.steps = 20;
  expect_same_as_cpu(plan);
}

TEST_F(CudaTraining, TwoStepsInPartsEqualTheCpu) {
  TrainingPlan plan;
  plan.steps = 2;
  plan.global_batch = 2;
  plan.sequence = 8;
  plan.exchange_chunks = 2;
  plan.step.reduction_bucket = 0;
  expect_same_as_cpu(plan);
}

TEST_F(CudaTraining, MuonWithSharedExpertsEqualsTheCpu) {
  TrainingPlan plan = plan_with("muon");
  plan.steps = 3;
  expect_same_as_cpu(plan);
}

TEST_F(CudaTraining, TokensInPartsAndSumsDuringTheBackwardPassEqualTheCpu) {
  TrainingPlan plan;
  plan.steps = 2;
  plan.exchange_chunks = 3;
  plan.step.reduction_bucket = 0;
  expect_same_as_cpu(plan);
}

TEST_F(CudaTraining, InBfloat16FollowsFloat32) {
  // Rounding may move choices of experts, so only the losses are compared: to about three digits of bfloat16.
  TrainingPlan plan;
  plan.steps = 3;
  const auto exact = on_gpus(plan, 1);
  std::vector<std::unique_ptr<Training>> rounded;
  for (const int width : std::set{1, test_world().size()})
    rounded.push_back(on_gpus(plan, width, width > 1, DType::kBfloat16));
  for (int64_t step = 1; step <= plan.steps && all_ranks(test_world(), !HasFailure()); ++step) {
    const StepResult expected = exact->run(step);
    for (const auto& training : rounded) {
      const StepResult found = training->run(step);
      for (size_t s = 0; s < expected.segment_loss.size(); ++s) {
        expect_near(found.segment_loss[s], expected.segment_loss[s], "loss", step, 1e-2);
        expect_near(found.gradient_norm[s], expected.gradient_norm[s], "gradient norm", step, 0.1);
      }
      EXPECT_NE(found.segment_loss, expected.segment_loss) << "nothing was rounded";
    }
  }
}

TEST_F(CudaTraining, ExpertsOfOneRankAloneThenOfAnother) {
  // All tokens go to the first experts, then to the last: a rank gets nothing in one run and everything in the other.
  for (const std::vector<int64_t>& favoured : {std::vector<int64_t>{0, 1}, std::vector<int64_t>{6, 7}}) {
    TrainingPlan plan;
    plan.steps = 2;
    plan.favoured = favoured;
    expect_same_as_cpu(plan);
  }
}

TEST_F(CudaTraining, TheSameTwiceHasTheSameBits) {
  const TrainingPlan plan;
  const int width = test_world().size();
  const auto one = on_gpus(plan, width, true), two = on_gpus(plan, width, true);
  for (int64_t step = 1; step <= 3; ++step) {
    const StepResult a = one->run(step), b = two->run(step);
    EXPECT_EQ(std::memcmp(a.segment_loss.data(), b.segment_loss.data(), a.segment_loss.size() * sizeof(double)), 0);
  }
  for (const Parameter& p : one->model.parameters().all()) {
    const std::vector<float> x = p.value.get<float>(), y = two->model.parameters().find(p.name).value.get<float>();
    EXPECT_EQ(std::memcmp(x.data(), y.data(), x.size() * sizeof(float)), 0) << p.name;
  }
}

}  // namespace
}  // namespace heddle
