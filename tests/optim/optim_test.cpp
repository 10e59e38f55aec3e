// Schedule, clipping, norms and updates against numbers made by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "optim/gradients.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace heddle {
namespace {

TEST(Schedule, RoundsHalvesToEven) {
  EXPECT_EQ((Schedule{"wsd", 25, 0.1, 0.1, 0.1}.warmup_steps()), 2);  // 2.5
  EXPECT_EQ((Schedule{"wsd", 35, 0.1, 0.1, 0.1}.warmup_steps()), 4);  // 3.5
  EXPECT_EQ((Schedule{"wsd", 25, 0.1, 0.1, 0.1}.decay_steps()), 2);
  EXPECT_EQ((Schedule{"wsd", 10, 0.01, 0.01, 0.1}.warmup_steps()), 1);  // at least one
  EXPECT_EQ((Schedule{"wsd", 10, 0.01, 0.01, 0.1}.decay_steps()), 0);
}

TEST(Schedule, WarmsUpStaysAndDecays) {
  const Schedule s{"wsd", 100, 0.1, 0.2, 0.1};  // 10 up, 20 down from step 80
  EXPECT_DOUBLE_EQ(s.factor(1), 0.1);
  EXPECT_DOUBLE_EQ(s.factor(9), 0.9);
  EXPECT_DOUBLE_EQ(s.factor(10), 1);
  EXPECT_DOUBLE_EQ(s.factor(80), 1);
  EXPECT_DOUBLE_EQ(s.factor(90), 0.55);
  EXPECT_DOUBLE_EQ(s.factor(99), 0.145);
  EXPECT_DOUBLE_EQ(s.factor(100), 0.1);
  EXPECT_DOUBLE_EQ(s.factor(130), 0.1);
}

TEST(Schedule, DecayNeverReachesIntoTheWarmUp) {
  const Schedule s{"wsd", 10, 0.5, 0.8, 0};  // 5 up; decay starts at 5, not at 2
  EXPECT_DOUBLE_EQ(s.factor(4), 0.8);
  EXPECT_DOUBLE_EQ(s.factor(5), 1);
  EXPECT_DOUBLE_EQ(s.factor(6), 0.8);
  EXPECT_DOUBLE_EQ(s.factor(10), 0);
}

TEST(Clip, FactorBringsTheNormDown) {
  EXPECT_DOUBLE_EQ(clip_factor(0.5, 1), 1);
  EXPECT_NEAR(clip_factor(4, 1) * 4, 1, 1e-6);
  EXPECT_DOUBLE_EQ(clip_factor(4, 1), 1 / (4 + 1e-6));
  EXPECT_DOUBLE_EQ(clip_factor(4, 0), 1);
}

/// Two dense tensors and one of experts, gradients allocated.
struct Parameters {
  std::unique_ptr<Communicator> world = make_single_communicator();
  ProcessGroups groups{*world, 1};
  ParameterSet set;
  Parameter &a, &experts, &b;
  Parameters() : a(set.add("a", {3, 4})), experts(set.add_experts("experts", {2, 5}, 0, 2)), b(set.add("b", {7})) {
    set.allocate_values();
    set.allocate_gradients();
    for (Parameter& p : set.all()) {
      fill(p.value, 1);
      fill(p.gradient, std::numeric_limits<float>::quiet_NaN());
    }
  }
  static void fill(const Tensor& t, float value) { std::fill_n(t.f32(), t.count(), value); }
  double norm() { return gradient_norm(set, groups, Shards(set, groups, false), cpu::kernels()); }
  static void give(Parameter& p, float value) {
    fill(p.gradient, value);
    p.has_gradient = true;
  }
};

TEST(GradientNorm, OfOnesIsTheRootOfTheCount) {
  Parameters p;
  for (Parameter& q : p.set.all()) Parameters::give(q, 1);
  EXPECT_DOUBLE_EQ(p.norm(), std::sqrt(12.0 + 10 + 7));
  Parameters::give(p.b, 2);
  EXPECT_DOUBLE_EQ(p.norm(), std::sqrt(12.0 + 10 + 28));
}

TEST(GradientNorm, LeavesOutWhatHasNoneAndSeesNan) {
  Parameters p;
  Parameters::give(p.a, 1);
  EXPECT_DOUBLE_EQ(p.norm(), std::sqrt(12.0));
  p.b.has_gradient = true;  // NaN
  EXPECT_FALSE(std::isfinite(p.norm()));
}

TEST(Optimizer, AdamwStepsByHand) {
  Parameters p;
  Optimizer adamw(
      {.name = "adamw", .learning_rate = 0.5, .beta1 = 0.9, .beta2 = 0.99, .eps = 0.01, .weight_decay = 0.1}, p.set,
      p.groups, cpu::kernels());
  Parameters::give(p.a, 4);
  adamw.step(1, 1, 0.5);  // g = 2
  // 1 * (1 - 0.05) - 0.5 * (0.2 / 0.1) / (sqrt(0.04 / 0.01) + 0.01)
  const double first = 0.95 - 0.5 * 2 / 2.01;
  EXPECT_NEAR(p.a.value.f32()[0], first, 1e-6);
  EXPECT_NEAR(p.a.value.f32()[11], first, 1e-6);
  Parameters::give(p.a, -2);
  adamw.step(1, 1, 0.5);  // g = -1
  const double m = 0.9 * 0.2 - 0.1, v = 0.99 * 0.04 + 0.01;
  const double second = first * 0.95 - 0.5 * (m / (1 - 0.81)) / (std::sqrt(v / (1 - 0.9801)) + 0.01);
  EXPECT_NEAR(p.a.value.f32()[0], second, 1e-6);
  EXPECT_EQ(adamw.states()[0].steps, 2);
}

TEST(Optimizer, SgdStepsByHand) {
  Parameters p;
  Optimizer sgd({.name = "sgd", .learning_rate = 0.5, .momentum = 0.5, .weight_decay = 0.1}, p.set, p.groups,
                cpu::kernels());
  Parameters::give(p.b, 2);
  sgd.step(0.5, 1, 1);
  EXPECT_NEAR(p.b.value.f32()[3], 0.975 - 0.25 * 2, 1e-6);
  sgd.step(0.5, 1, 1);
  EXPECT_NEAR(p.b.value.f32()[3], 0.475 * 0.975 - 0.25 * 3, 1e-6);
  EXPECT_FALSE(sgd.states()[2].second.defined());
}

TEST(Optimizer, LeavesTensorsWithoutGradientAlone) {
  for (const char* name : {"adamw", "sgd"}) {
    Parameters p;
    Optimizer optimizer({.name = name, .learning_rate = 0.1}, p.set, p.groups, cpu::kernels());
    Parameters::give(p.a, 1);
    Parameters::give(p.b, 1);
    optimizer.step(1, 1, 1);
    p.set.clear_gradients();
    Parameters::give(p.a, 1);
    const float moment = optimizer.states()[2].first.f32()[0], value = p.b.value.f32()[0];
    optimizer.step(1, 1, 1);
    EXPECT_EQ(p.b.value.f32()[0], value) << name;
    EXPECT_EQ(optimizer.states()[2].first.f32()[0], moment) << name;
    EXPECT_EQ(optimizer.states()[2].steps, 1) << name;
    EXPECT_EQ(optimizer.states()[0].steps, 2) << name;
    EXPECT_EQ(p.experts.value.f32()[0], 1.0F) << name << " never had a gradient";
    EXPECT_EQ(optimizer.states()[1].steps, 0) << name;
  }
}

TEST(Optimizer, DecaysEveryTensorAlsoVectors) {
  for (const char* name : {"adamw", "sgd"}) {
    Parameters p;
    Optimizer optimizer({.name = name, .learning_rate = 0.1, .weight_decay = 0.5}, p.set, p.groups, cpu::kernels());
    for (Parameter& q : p.set.all()) Parameters::give(q, 0);
    optimizer.step(1, 1, 1);
    for (const Parameter& q : p.set.all()) EXPECT_NEAR(q.value.f32()[0], 0.95, 1e-6) << name << ' ' << q.name;
  }
}

TEST(GradientRuns, NeighboursJoinAndGapsSeparate) {
  Parameters p;
  Parameters::give(p.a, 1);
  Parameters::give(p.b, 1);
  EXPECT_EQ(p.set.gradient_runs(Sharing::kReplicated).size(), 1U);  // the experts between lie elsewhere
  const ArenaRange run = p.set.gradient_runs(Sharing::kReplicated)[0];
  EXPECT_EQ(run.count, 16 + 7) << "12, a gap up to 64 bytes, 7";
  EXPECT_EQ(p.set.gradients(Sharing::kReplicated, run)[12], 0.0F) << "gaps hold zeros";
  EXPECT_TRUE(p.set.gradient_runs(Sharing::kExpert).empty());
  ParameterSet three;
  for (const char* name : {"x", "y", "z"}) three.add(name, {2});
  three.allocate_values();
  three.allocate_gradients();
  three.find("x").has_gradient = three.find("z").has_gradient = true;
  EXPECT_EQ(three.gradient_runs(Sharing::kReplicated).size(), 2U);
}

}  // namespace
}  // namespace heddle
