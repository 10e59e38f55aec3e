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
  EXPECT_EQ((Schedule{"wsd", 10, 0.01, 0.01, 0.1}.warmup_steps()), 1);      // at least one
  EXPECT_EQ((Schedule{"wsd", 100, 0.575, 0.575, 0.1}.warmup_steps()), 58);  // 57.5, a little less as a double
  EXPECT_EQ((Schedule{"wsd", 100, 0.285, 0.575, 0.1}.decay_steps()), 58);
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

TEST(Schedule, CosineAndLineGoDownToTheLastRatio) {
  for (const char* name : {"cosine", "linear"}) {
    const Schedule s{name, 110, 10.0 / 110, 0.5, 0.2};  // 10 up, then 100 down whatever the decay ratio
    EXPECT_DOUBLE_EQ(s.factor(5), 0.5) << name;
    EXPECT_DOUBLE_EQ(s.factor(10), 1) << name;
    EXPECT_NEAR(s.factor(60), 0.6, 1e-12) << name;
    EXPECT_NEAR(s.factor(110), 0.2, 1e-12) << name;
    EXPECT_NEAR(s.factor(200), 0.2, 1e-12) << name;
  }
  EXPECT_NEAR((Schedule{"linear", 110, 10.0 / 110, 0, 0.2}.factor(35)), 0.2 + 0.8 * 0.75, 1e-12);
  EXPECT_NEAR((Schedule{"cosine", 110, 10.0 / 110, 0, 0.2}.factor(35)), 0.2 + 0.4 * (1 + std::sqrt(0.5)), 1e-12);
  EXPECT_NEAR((Schedule{"cosine", 1, 1, 0, 0.2}.factor(1)), 1, 1e-12) << "a run that ends with its warm-up";
}

TEST(Schedule, WarmsUpAgainAfterGrowth) {
  Schedule s{"linear", 100, 0.1, 0, 0};
  s.growth_step = 40;
  EXPECT_DOUBLE_EQ(s.factor(40), 60 / 90.0) << "growth alone changes nothing";
  s.rewarm_steps = 20;
  EXPECT_DOUBLE_EQ(s.factor(39), 61 / 90.0);
  EXPECT_DOUBLE_EQ(s.factor(40), 0);
  EXPECT_DOUBLE_EQ(s.factor(45), 0.25 * 55 / 90.0);
  EXPECT_DOUBLE_EQ(s.factor(60), 40 / 90.0);
  EXPECT_DOUBLE_EQ(s.factor(80), 20 / 90.0);
  s.growth_step = 0;
  EXPECT_DOUBLE_EQ(s.factor(45), 55 / 90.0) << "without growth there is nothing to warm up from";
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

TEST(Optimizer, DecaySetMatricesLeavesVectorsOut) {
  for (const char* name : {"adamw", "sgd", "muon"}) {
    Parameters p;
    p.b.role = Role::kVector;
    p.experts.role = Role::kRouter;
    OptimizerConfig config{.name = name, .learning_rate = 0.1, .weight_decay = 0.5, .decay = "matrices"};
    config.muon.learning_rate = 0.2;
    config.muon.weight_decay = 0.5;
    Optimizer optimizer(config, p.set, p.groups, cpu::kernels());
    for (Parameter& q : p.set.all()) Parameters::give(q, 0);
    optimizer.step(0.5, 1, 1);
    EXPECT_NEAR(p.a.value.f32()[0], config.name == "muon" ? 0.95 : 0.975, 1e-6) << name;
    EXPECT_NEAR(p.experts.value.f32()[0], 0.975, 1e-6) << name;
    EXPECT_EQ(p.b.value.f32()[0], 1) << name;
  }
}

TEST(Optimizer, RatesGoByRoleAndTiedCore) {
  // SGD without momentum or decay shows the rate: 0.1 * 0.5 times the factor of the role, over 9^0.5 in a tied core.
  struct Row {
    Role role;
    bool tied;
    double rate;
  };
  for (const Row& row :
       {Row{Role::kMatrix, false, 0.05}, Row{Role::kRouter, false, 0.05}, Row{Role::kEmbedding, false, 0.1},
        Row{Role::kHead, false, 0.15}, Row{Role::kVector, false, 0.2}, Row{Role::kMatrix, true, 0.05 / 3},
        Row{Role::kVector, true, 0.2 / 3}}) {
    Parameters p;
    p.a.role = row.role;
    p.a.tied_core = row.tied;
    Parameters::give(p.a, 1);
    OptimizerConfig config{.name = "sgd", .learning_rate = 0.1, .momentum = 0, .weight_decay = 0};
    config.embedding_rate = 2;
    config.head_rate = 3;
    config.gain_rate = 4;
    config.tied_rate_power = 0.5;
    config.loops = 9;
    Optimizer(config, p.set, p.groups, cpu::kernels()).step(0.5, 1, 1);
    EXPECT_NEAR(1 - p.a.value.f32()[0], row.rate, 1e-6) << static_cast<int>(row.role) << row.tied;
    config.name = "adamw";  // the first step of AdamW without decay is its rate
    Parameters q;
    q.a.role = row.role;
    q.a.tied_core = row.tied;
    Parameters::give(q.a, 1);
    Optimizer(config, q.set, q.groups, cpu::kernels()).step(0.5, 1, 1);
    EXPECT_NEAR(1 - q.a.value.f32()[0], row.rate, 1e-6) << static_cast<int>(row.role) << row.tied;
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
