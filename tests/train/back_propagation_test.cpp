// Schedules of back-propagation against each other: what recomputes or cuts nothing gives the same bits as going
// through all loops, and what truncation leaves out is exactly absent.
#include "train/back_propagation.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "tests/train/family_points.h"

namespace heddle {
namespace {

using Mode = BackPropagationMode;

/// Three steps on one rank in two micro-batches, and what each of them said.
struct Trained {
  explicit Trained(const TrainingPlan& plan) : training(plan, *world, 1, 2) {
    for (int64_t step = 1; step <= 3; ++step) {
      results.push_back(training.run(step));
      loads.push_back(training.trainer.statistics().loads());
      for (int64_t l = 0; l < training.model.stored_moe_layers(); ++l)
        stored_loads.push_back(training.trainer.statistics().stored_load(l));
      dropped.push_back(training.trainer.statistics().dropped());
    }
  }
  std::unique_ptr<Communicator> world = make_single_communicator();
  Training training;
  std::vector<StepResult> results;
  std::vector<std::vector<int64_t>> loads, stored_loads, dropped;
};

void expect_same_bits(Trained&& found, Trained& expected) {
  for (size_t step = 0; step < expected.results.size(); ++step) {
    const StepResult &a = found.results[step], &b = expected.results[step];
    EXPECT_EQ(a.segment_loss, b.segment_loss) << "step " << step + 1;
    EXPECT_EQ(a.cross_entropy, b.cross_entropy) << "step " << step + 1;
    EXPECT_EQ(a.last_cross_entropy, b.last_cross_entropy) << "step " << step + 1;
    EXPECT_EQ(a.aux, b.aux) << "step " << step + 1;
    EXPECT_EQ(a.router_z, b.router_z) << "step " << step + 1;
    EXPECT_EQ(a.gradient_norm, b.gradient_norm) << "step " << step + 1;
  }
  EXPECT_EQ(found.loads, expected.loads) << "a recomputation was counted, or chose otherwise";
  EXPECT_EQ(found.stored_loads, expected.stored_loads);
  EXPECT_EQ(found.dropped, expected.dropped);
  size_t i = 0;
  for (const Parameter& p : expected.training.model.parameters().all()) {
    const Parameter& q = found.training.model.parameters().all()[i++];
    EXPECT_EQ(q.has_gradient, p.has_gradient) << p.name;
    EXPECT_EQ(std::memcmp(q.value.f32(), p.value.f32(), static_cast<size_t>(p.value.bytes())), 0)
        << p.name << " differs by " << relative_error(q.value.floats(), p.value.floats());
  }
}

class FamilyPoint : public testing::TestWithParam<NamedPlan> {
 protected:
  static TrainingPlan plan_of(Mode mode, int64_t loops, bool step_per_segment = true) {
    TrainingPlan plan = GetParam().plan;
    plan.global_batch = 4;
    plan.step.back_propagation = {mode, loops, step_per_segment};
    return plan;
  }
};

TEST_P(FamilyPoint, CheckpointedIsFullToTheBit) {
  Trained full(plan_of(Mode::kFull, 0));
  ASSERT_GT(full.results[0].gradient_norm[0], 0);
  // R is 5: segments that divide it, that do not, one, and more than one.
  for (const int64_t segment : {1, 2, 3, 5, 9}) {
    SCOPED_TRACE(fmt::format("segments of {}", segment));
    expect_same_bits(Trained(plan_of(Mode::kCheckpointed, segment)), full);
  }
}

/// Keeps each gradient as it is when the last use of its parameter is unwound.
class Snapshots final : public GradientListener {
 public:
  void used(Parameter& p) override { ++uses_[&p]; }
  void unwound(Parameter& p) override {
    if (--uses_.at(&p) == 0 && p.has_gradient) complete[p.name] = p.gradient.get<float>();
  }
  std::map<std::string, std::vector<float>> complete;

 private:
  std::map<const Parameter*, int> uses_;
};

TEST_P(FamilyPoint, ListenersLearnWhenAGradientIsComplete) {
  for (const Mode mode : {Mode::kFull, Mode::kCheckpointed, Mode::kTruncated}) {
    if (mode == Mode::kTruncated && GetParam().plan.model.lanes > 0) continue;
    SCOPED_TRACE(kBackPropagationModes(mode));
    const auto world = make_single_communicator();
    Training training(plan_of(mode, mode == Mode::kFull ? 0 : 2), *world, 1, 4);
    const RouterLossConfig no_losses;
    PieceRun run(training.model, training.plan.step.loop_weights, no_losses, nullptr);
    Snapshots snapshots;
    const Piece piece = pieces_of(training.plan.step.back_propagation, training.plan.model.loops).at(0);
    run.run(training.batches(1).at(0), piece, {1.0 / 64, 64, 1}, nullptr, false, &snapshots);
    size_t with_gradient = 0;
    for (const Parameter& p : training.model.parameters().all()) {
      with_gradient += p.has_gradient;
      const auto found = snapshots.complete.find(p.name);
      if (found == snapshots.complete.end()) continue;
      EXPECT_EQ(found->second, p.gradient.get<float>()) << p.name;
    }
    // Of recomputed loops those of the first segment only, and not what exits use: they come before.
    const size_t least = mode == Mode::kCheckpointed ? 1 : with_gradient;
    EXPECT_GE(snapshots.complete.size(), least);
  }
}

TEST_P(FamilyPoint, OneSegmentIsFullToTheBit) {
  if (!GetParam().plan.step.loop_weights.empty()) return;  // segments have losses of their own
  Trained full(plan_of(Mode::kFull, 0));
  for (const int64_t segment : {5, 6})
    for (const bool step_per_segment : {true, false})
      expect_same_bits(Trained(plan_of(Mode::kSegmented, segment, step_per_segment)), full);
}

TEST_P(FamilyPoint, TruncationToAllLoopsIsFullToTheBit) {
  if (GetParam().plan.model.lanes > 0) return;  // not defined
  Trained full(plan_of(Mode::kFull, 0));
  for (const int64_t loops : {5, 7}) expect_same_bits(Trained(plan_of(Mode::kTruncated, loops)), full);
}

INSTANTIATE_TEST_SUITE_P(Schedules, FamilyPoint, testing::ValuesIn(family_points()),
                         [](const auto& param_info) { return param_info.param.name; });

/// Gradients of the last `kept` of R loops when the state in front of them is a constant.
void gradients_behind_a_constant(Training& training, const TokenBatch& batch, int64_t kept) {
  LoopedModel& model = training.model;
  const int64_t first = training.plan.model.loops - kept;
  LoopCarry carry;
  {
    Tape tape(model.kernels(), Tape::Mode::kForwardOnly);
    const Variable embedding = model.embed(tape, batch, {});
    LoopState state = model.start(batch, embedding);
    model.run_loops(tape, batch, embedding, 0, first, {}, state);
    carry = LoopedModel::detach(state);
  }
  int64_t counted = 0;
  for (int64_t i = 0; i < batch.targets.count(); ++i) counted += batch.targets.i32()[i] != kIgnoredTarget;
  model.parameters().clear_gradients();
  Tape tape(model.kernels());
  const Variable embedding = model.embed(tape, batch, {});
  LoopState state = LoopedModel::resume(carry);
  model.run_loops(tape, batch, embedding, first, training.plan.model.loops, {}, state);
  model.loss(tape, model.read_out(tape, batch, embedding, state, {}), batch, 1 / static_cast<double>(counted));
  state = {};
  tape.backward();
}

TEST(Truncated, TheGradientIsThatOfAConstantStateInFront) {
  for (const NamedPlan& point : family_points()) {
    if (point.plan.model.lanes > 0 || !point.plan.step.loop_weights.empty()) continue;
    SCOPED_TRACE(point.name);
    TrainingPlan plan = point.plan;
    plan.model.moe.aux_loss = plan.model.moe.router_z_loss = 0;
    plan.step.back_propagation = {Mode::kTruncated, 2, true};
    plan.step.clip_norm = 0;
    plan.optimizer.name = "sgd";
    plan.optimizer.learning_rate = 1e-30;  // the weights stay, the gradients are left to be read
    const auto world = make_single_communicator();
    Training truncated(plan, *world, 1, plan.global_batch), constant(plan, *world, 1, plan.global_batch);
    plan.step.back_propagation = {};
    Training full(plan, *world, 1, plan.global_batch);
    truncated.run(1);
    full.run(1);
    gradients_behind_a_constant(constant, constant.batches(1)[0], 2);

    double largest_difference = 0;
    size_t i = 0;
    for (const Parameter& p : constant.model.parameters().all()) {
      const Parameter &found = truncated.model.parameters().all()[i], &through_all = full.model.parameters().all()[i];
      ++i;
      ASSERT_EQ(found.has_gradient, p.has_gradient) << p.name;
      if (!p.has_gradient) continue;
      EXPECT_LE(relative_error(found.gradient.floats(), p.gradient.floats()), 2e-6) << p.name;
      largest_difference =
          std::max(largest_difference, relative_error(through_all.gradient.floats(), p.gradient.floats()));
    }
    EXPECT_GT(largest_difference, 1e-2) << "the first loops have no say: the case shows nothing";
  }
}

TEST(Truncated, TensorsOfTheFirstLoopsHaveNoGradientAndStay) {
  TrainingPlan plan;  // a router per loop, R 4
  plan.step.back_propagation = {Mode::kTruncated, 1, true};
  plan.model.moe.aux_loss = 0.1;
  plan.model.moe.router_z_loss = 0.1;
  const auto world = make_single_communicator();
  Training tied(plan, *world, 1, plan.global_batch);
  plan.model.tied = false;
  Training untied(plan, *world, 1, plan.global_batch);
  for (Training* const training : {&tied, &untied}) {
    std::vector<Tensor> before;
    for (const Parameter& p : training->model.parameters().all()) before.push_back(p.value.clone());
    training->run(1);
    int64_t absent = 0;
    size_t i = 0;
    for (const Parameter& p : training->model.parameters().all()) {
      const bool is_tied = training == &tied;
      const size_t router = p.name.find("routers.");
      const bool of_first_loops =
          is_tied ? router != p.name.npos && p.name[router + 8] < '3' : p.name.starts_with("core.") && p.name[5] < '3';
      EXPECT_EQ(p.has_gradient, !of_first_loops) << p.name;
      EXPECT_EQ(relative_error(p.value.floats(), before[i].floats()) == 0, of_first_loops) << p.name;
      EXPECT_EQ(training->optimizer.states()[i].steps, of_first_loops ? 0 : 1) << p.name;
      absent += of_first_loops;
      ++i;
    }
    EXPECT_EQ(absent, training == &tied ? 2 * 3 : 3 * (untied.model.parameters().all().size() - 2) / 4);
  }
}

TEST(RouterLossCoefficients, OfZeroChangeNothing) {
  TrainingPlan plan = family_points()[0].plan;
  plan.global_batch = 4;
  plan.model.moe.aux_loss = plan.model.moe.router_z_loss = 0;
  for (const AuxScope scope : {AuxScope::kLoop, AuxScope::kSummed}) {
    plan.model.moe.aux_scope = scope;
    plan.step.measure_router_losses = false;
    Trained without(plan);
    EXPECT_EQ(without.results[0].aux[0], 0);
    plan.step.measure_router_losses = true;
    Trained measured(plan);
    EXPECT_GT(measured.results[0].aux[0], 0.9);
    EXPECT_GT(measured.results[0].router_z[0], 0.1);
    EXPECT_EQ(measured.results[0].segment_loss, measured.results[0].cross_entropy);
    EXPECT_EQ(measured.results[2].gradient_norm, without.results[2].gradient_norm);
    size_t i = 0;
    for (const Parameter& p : without.training.model.parameters().all())
      EXPECT_EQ(relative_error(measured.training.model.parameters().all()[i++].value.floats(), p.value.floats()), 0)
          << p.name;
  }
  // And the test can fail: a coefficient moves the routers.
  plan.model.moe.aux_loss = 0.1;
  Trained with(plan);
  plan.model.moe.aux_loss = 0;
  Trained without(plan);
  EXPECT_NE(with.results[1].gradient_norm, without.results[1].gradient_norm);
  EXPECT_NEAR(with.results[0].segment_loss[0], with.results[0].cross_entropy[0] + 0.1 * with.results[0].aux[0], 1e-12);
}

}  // namespace
}  // namespace heddle
