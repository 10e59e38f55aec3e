// The balance loss A and the router z-loss Q against numbers made by hand, and their gradients.
#include "moe/router_losses.h"

#include "tests/autograd/gradient_check.h"

namespace heddle {
namespace {

/// One visit: router logits and the experts chosen for each token.
struct Visit {
  RouterVisit visit;
  std::vector<std::vector<float>> logits;
  std::vector<int32_t> chosen;
};

struct Outcome {
  double aux = 0, router_z = 0;
  std::vector<Tensor> gradients;  ///< of the logits, per visit
};

Tensor matrix(const std::vector<std::vector<float>>& rows) {
  Tensor t =
      Tensor::empty({static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows[0].size())}, Purpose::kActivations);
  float* out = t.f32();
  for (const std::vector<float>& row : rows) out = std::copy(row.begin(), row.end(), out);
  return t;
}

/// Scores are softmax of the logits. `replayed`: the visits once more, as a recomputation does.
Outcome run(const RouterLossConfig& config, const std::vector<Visit>& visits, double weight = 1,
            bool replayed = false) {
  const auto world = make_single_communicator();
  const auto tokens = static_cast<int64_t>(visits[0].logits.size());
  const auto experts = static_cast<int64_t>(visits[0].logits[0].size());
  const int64_t k = static_cast<int64_t>(visits[0].chosen.size()) / tokens;
  RouterLosses losses(config, experts, k, tokens, weight);
  const auto pass = [&](Tape& tape) {
    std::vector<Variable> leaves;
    for (const Visit& v : visits) {
      leaves.push_back(tape.leaf(matrix(v.logits)));
      losses.add_logits(tape, leaves.back());
      losses.add_choice(tape, v.visit, integers(v.chosen, {tokens, k}), softmax(tape, leaves.back()));
    }
    return leaves;
  };
  Outcome outcome;
  Tape first(cpu::kernels(), replayed ? Tape::Mode::kForwardOnly : Tape::Mode::kRecord);
  std::vector<Variable> leaves = pass(first);
  losses.finish(*world);
  Tape second(cpu::kernels());
  if (replayed) {
    losses.replay();
    leaves = pass(second);
    second.backward();
  } else {
    first.backward();
  }
  for (const Variable& leaf : leaves) {
    Tensor gradient = take_gradient(leaf.slot);
    outcome.gradients.push_back(gradient.defined() ? gradient
                                                   : Tensor::zeros(leaf.value.shape(), Purpose::kActivations));
  }
  outcome.aux = losses.aux();
  outcome.router_z = losses.router_z();
  return outcome;
}

const double kLn2 = std::log(2.0);

TEST(RouterZLoss, OfTwoRowsByHand) {
  // logsumexp(0, 0) = ln 2, logsumexp(10, 10) = 10 + ln 2.
  const RouterLossConfig config{.aux = 0, .z = 0.5, .scope = AuxScope::kLoop, .measure = false};
  const std::vector<Visit> visits{{{0, 0}, {{0, 0}, {10, 10}}, {0, 1}}};
  const Outcome one = run(config, visits);
  EXPECT_NEAR(one.router_z, (kLn2 * kLn2 + (10 + kLn2) * (10 + kLn2)) / 2, 1e-5);
  EXPECT_EQ(one.aux, 0);
  // d/dz of coefficient / N * lse^2 is coefficient / N * 2 lse * softmax.
  EXPECT_NEAR(one.gradients[0].f32()[0], 0.5 / 2 * 2 * kLn2 * 0.5, 1e-6);
  EXPECT_NEAR(one.gradients[0].f32()[1], 0.5 / 2 * 2 * kLn2 * 0.5, 1e-6);
  EXPECT_NEAR(one.gradients[0].f32()[2], 0.5 / 2 * 2 * (10 + kLn2) * 0.5, 1e-5);
  // Visits add up; the share of the micro-step multiplies.
  const Outcome two = run(config, {visits[0], {{0, 1}, {{0, 0}, {0, 0}}, {0, 1}}}, 0.25);
  EXPECT_NEAR(two.router_z, 0.25 * (one.router_z + kLn2 * kLn2), 1e-5);
}

TEST(BalanceLoss, IsOneWhereBalanced) {
  // Four experts, k 2, every score 1/4, every expert chosen equally often.
  const std::vector<Visit> even{{{0, 0}, {{0, 0, 0, 0}, {0, 0, 0, 0}}, {0, 1, 2, 3}}};
  for (const AuxScope scope : {AuxScope::kLoop, AuxScope::kSummed})
    EXPECT_NEAR(run({.aux = 1, .z = 0, .scope = scope, .measure = false}, even).aux, 1, 1e-6);
}

TEST(BalanceLoss, IsExpertsOverChosenWhereCollapsed) {
  // Both tokens choose experts 0 and 1, which have half of the score each: f = p = 1/2 twice, so A = E / k = 2.
  const RouterLossConfig config{.aux = 1, .z = 0, .scope = AuxScope::kLoop, .measure = false};
  const std::vector<std::vector<float>> sure{{40, 40, 0, 0}, {40, 40, 0, 0}};
  EXPECT_NEAR(run(config, {{{0, 0}, sure, {0, 1, 0, 1}}}).aux, 4.0 / 2, 1e-6);
  // All scores on one expert of four with k 1: E.
  EXPECT_NEAR(run(config, {{{0, 0}, {{40, 0, 0, 0}, {40, 0, 0, 0}}, {0, 0}}}).aux, 4, 1e-6);
  // Collapsed choices of even scores: 4 * 2 * 1/2 * 1/4 = 1.
  EXPECT_NEAR(run(config, {{{0, 0}, {{0, 0, 0, 0}, {0, 0, 0, 0}}, {0, 1, 0, 1}}}).aux, 1, 1e-6);
}

TEST(BalanceLoss, SummedTakesMeansOverTheVisitsOfALayerFirst) {
  // Loop 0 sends all to expert 0 of two, loop 1 all to expert 1: each visit alone has A = 2, their means A = 1.
  const std::vector<Visit> turns{{{0, 0}, {{40, 0}, {40, 0}}, {0, 0}}, {{0, 1}, {{0, 40}, {0, 40}}, {1, 1}}};
  EXPECT_NEAR(run({.aux = 1, .z = 0, .scope = AuxScope::kLoop, .measure = false}, turns).aux, 4, 1e-6);
  EXPECT_NEAR(run({.aux = 1, .z = 0, .scope = AuxScope::kSummed, .measure = false}, turns).aux, 1, 1e-6);
  // Of two layers, one term each.
  std::vector<Visit> layers = turns;
  layers[1].visit.layer = 1;
  EXPECT_NEAR(run({.aux = 1, .z = 0, .scope = AuxScope::kSummed, .measure = false}, layers).aux, 4, 1e-6);
}

/// Visits whose logits are random.
std::vector<Visit> uneven() {
  const Tensor values = random_tensor({2 * 3 * 4}, 7);
  std::vector<Visit> visits{{{0, 0}, {}, {0, 1, 0, 2, 0, 3}}, {{0, 1}, {}, {3, 1, 0, 2, 1, 2}}};
  for (size_t v = 0; v < 2; ++v)
    for (int64_t n = 0; n < 3; ++n) {
      const float* const row = values.f32() + (static_cast<int64_t>(v) * 3 + n) * 4;
      visits[v].logits.emplace_back(row, row + 4);
    }
  return visits;
}

TEST(RouterLosses, GradientsAreThoseOfTheSum) {
  for (const AuxScope scope : {AuxScope::kLoop, AuxScope::kSummed}) {
    const RouterLossConfig config{.aux = 0.3, .z = 0.2, .scope = scope, .measure = false};
    const Outcome at = run(config, uneven(), 0.5);
    for (size_t v = 0; v < 2; ++v)
      for (size_t n = 0; n < 3; ++n)
        for (size_t e = 0; e < 4; ++e) {
          const auto objective = [&](float shift) {
            std::vector<Visit> moved = uneven();
            moved[v].logits[n][e] += shift;
            const Outcome o = run(config, moved, 0.5);
            return 0.3 * o.aux + 0.2 * o.router_z;
          };
          const double measured = (objective(0.01F) - objective(-0.01F)) / 0.02;
          EXPECT_NEAR(static_cast<double>(at.gradients[v].f32()[n * 4 + e]), measured, 2e-4);
        }
  }
}

TEST(RouterLosses, ARecomputationHasTheSameGradientsAndIsNotCountedAgain) {
  for (const AuxScope scope : {AuxScope::kLoop, AuxScope::kSummed}) {
    const RouterLossConfig config{.aux = 0.3, .z = 0.2, .scope = scope, .measure = false};
    const Outcome once = run(config, uneven(), 0.5), twice = run(config, uneven(), 0.5, true);
    EXPECT_EQ(once.aux, twice.aux);
    EXPECT_EQ(once.router_z, twice.router_z);
    for (size_t v = 0; v < 2; ++v)
      for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(once.gradients[v].f32()[i], twice.gradients[v].f32()[i]);
  }
}

TEST(RouterLosses, MeasuringGivesNumbersWithoutGradients) {
  const Outcome measured = run({.aux = 0, .z = 0, .scope = AuxScope::kLoop, .measure = true}, uneven());
  const Outcome trained = run({.aux = 1, .z = 1, .scope = AuxScope::kLoop, .measure = false}, uneven());
  EXPECT_EQ(measured.aux, trained.aux);
  EXPECT_EQ(measured.router_z, trained.router_z);
  for (const Tensor& gradient : measured.gradients)
    for (const float g : gradient.floats()) EXPECT_EQ(g, 0.0F);
  const Outcome off = run({}, uneven());
  EXPECT_EQ(off.aux, 0);
  EXPECT_EQ(off.router_z, 0);
}

}  // namespace
}  // namespace heddle
