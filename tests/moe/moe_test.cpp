// Routing on one rank against hand-made answers: the plan, capacity, the balance bias, and the layer against a loop
// over tokens and experts. (Several ranks: tests/distributed/route_plan_test.cpp.)
#include <gtest/gtest.h>

#include "moe/balance.h"
#include "moe/dispatch.h"
#include "moe/moe_layer.h"
#include "tests/autograd/gradient_check.h"

namespace heddle {
namespace {

Tensor floats(std::vector<float> values, Shape shape) {
  Tensor t = Tensor::empty(std::move(shape), Purpose::kActivations);
  std::copy(values.begin(), values.end(), t.f32());
  return t;
}

Tensor flags(std::vector<uint8_t> values, Shape shape) {
  Tensor t = Tensor::empty(std::move(shape), Purpose::kActivations, DType::kUint8);
  std::copy(values.begin(), values.end(), t.u8());
  return t;
}

std::vector<int> keep_of(CapacityScope scope, double factor, int64_t experts, const Tensor& index,
                         const Tensor& weights) {
  const auto world = make_single_communicator();
  const Tensor keep = capacity_keep(cpu::kernels(), *world, scope, factor, experts, index, weights);
  if (!keep.defined()) return {};
  return {keep.u8(), keep.u8() + keep.count()};
}

using Longs = std::vector<int64_t>;

TEST(RoutePlan, ListsSlotsByExpertThenToken) {
  // Tokens 0..3 choose (2,0), (0,1), (2,1), (2,0) of four experts; nobody wants expert 3.
  const auto world = make_single_communicator();
  const Tensor weights = floats({0.1F, 0.2F, 0.3F, 0.4F, 0.5F, 0.6F, 0.7F, 0.8F}, {4, 2});
  const auto plan = make_route_plan(cpu::kernels(), *world, 4, integers({2, 0, 0, 1, 2, 1, 2, 0}, {4, 2}), {}, weights);
  EXPECT_EQ(*plan->expert_offsets, (Longs{0, 3, 5, 8, 8}));
  EXPECT_EQ(plan->slot_row.get<int64_t>(), (Longs{0, 1, 3, 1, 2, 0, 2, 3}));
  EXPECT_EQ(plan->slot_weight.get<float>(), (std::vector<float>{0.2F, 0.3F, 0.8F, 0.4F, 0.6F, 0.1F, 0.5F, 0.7F}));
  EXPECT_EQ(plan->sent_slot.get<int64_t>(), (Longs{1, 2, 7, 3, 5, 0, 4, 6}));
  EXPECT_EQ(plan->row_begin.get<int64_t>(), (Longs{0, 2, 4, 6, 8}));
  EXPECT_EQ(plan->row_slot.get<int64_t>(), (Longs{0, 5, 1, 3, 4, 6, 2, 7}));
  EXPECT_TRUE(plan->local());
}

TEST(RoutePlan, LeavesDroppedSlotsOutAndKeepsEmptyTokens) {
  const auto world = make_single_communicator();
  const auto plan = make_route_plan(cpu::kernels(), *world, 3, integers({0, 1, 0, 2, 1, 2}, {3, 2}),
                                    flags({1, 0, 0, 0, 1, 1}, {3, 2}), floats({1, 2, 3, 4, 5, 6}, {3, 2}));
  EXPECT_EQ(*plan->expert_offsets, (Longs{0, 1, 2, 3}));
  EXPECT_EQ(plan->slot_row.get<int64_t>(), (Longs{0, 2, 2}));
  EXPECT_EQ(plan->slot_weight.get<float>(), (std::vector<float>{1, 5, 6}));
  EXPECT_EQ(plan->row_begin.get<int64_t>(), (Longs{0, 1, 1, 3}));
}

TEST(RoutePlan, NoTokensMakeAnEmptyPlan) {
  const auto world = make_single_communicator();
  const auto plan = make_route_plan(cpu::kernels(), *world, 3, integers({}, {0, 2}), {}, floats({}, {0, 2}));
  EXPECT_EQ(*plan->expert_offsets, (Longs{0, 0, 0, 0}));
  EXPECT_EQ(plan->received_slots, 0);
}

TEST(Dispatch, GradientsOfTheRoundTripAgreeWithDifferences) {
  const auto world = make_single_communicator();
  const Tensor index = integers({2, 0, 0, 1, 2, 1, 2, 0}, {4, 2});
  const Tensor keep = flags({1, 1, 0, 0, 1, 1, 1, 1}, {4, 2});
  expect_gradients(
      [&](Tape& t, const std::vector<Variable>& x) {
        const auto plan = make_route_plan(cpu::kernels(), *world, 4, index, keep, x[1].value);
        const Variable rows = Dispatch(t, *world, plan, x[0]).finish(t);
        return std::vector<Variable>{Combine(t, *world, plan, swiglu(t, rows, rows), x[1]).finish(t, x[2])};
      },
      [&] {
        Tensor weights = random_tensor({4, 2}, 2);
        for (int64_t i = 0; i < 8; ++i) weights.f32()[i] *= static_cast<float>(keep.u8()[i]);
        return std::vector<Tensor>{random_tensor({4, 5}, 1), weights, random_tensor({4, 5}, 3)};
      }());
}

TEST(MoeLayer, EqualsALoopOverTokensAndExperts) {
  const auto world = make_single_communicator();
  ProcessGroups groups(*world, 1);
  const int64_t n = 9, d = 6, f = 5, experts = 4, k = 2, shared = 2;
  const MoeConfig config{.experts = experts, .top_k = k, .shared_experts = shared, .intermediate = f};
  ParameterSet set;
  MoeParameters p;
  p.routers = {&set.add("router", {experts, d})};
  p.gate_proj = &set.add_experts("gate", {experts, f, d}, 0, experts);
  p.up_proj = &set.add_experts("up", {experts, f, d}, 0, experts);
  p.down_proj = &set.add_experts("down", {experts, d, f}, 0, experts);
  p.shared_gate_proj = &set.add("shared_gate", {shared * f, d});
  p.shared_up_proj = &set.add("shared_up", {shared * f, d});
  p.shared_down_proj = &set.add("shared_down", {d, shared * f});
  set.allocate_values();
  uint32_t stream = 10;
  for (Parameter& q : set.all()) q.value.copy_from(random_tensor(q.value.shape(), stream++, 0.7));
  p.balance_bias = floats({0.3F, 0, -0.3F, 0}, {4});
  const Tensor x = random_tensor({n, d}, 1);

  const auto project = [](const float* w, const std::vector<double>& v, int64_t rows) {
    std::vector<double> out(static_cast<size_t>(rows), 0);
    for (size_t r = 0; r < out.size(); ++r)
      for (size_t c = 0; c < v.size(); ++c) out[r] += static_cast<double>(w[r * v.size() + c]) * v[c];
    return out;
  };
  const auto feed_forward = [&](const float* gate, const float* up, const float* down, const std::vector<double>& v,
                                int64_t width) {
    std::vector<double> g = project(gate, v, width);
    const std::vector<double> u = project(up, v, width);
    for (size_t i = 0; i < g.size(); ++i) g[i] = g[i] / (1 + std::exp(-g[i])) * u[i];
    return project(down, g, d);
  };
  for (const Kernels* kernels : {&ref::kernels(), &cpu::kernels()}) {
    Tape tape(*kernels, Tape::Mode::kForwardOnly);
    Routing routing;
    MoeVisit visit;
    visit.routing = &routing;
    const Variable y = moe_forward(tape, groups, config, p, visit, Tape::constant(x));
    for (int64_t t = 0; t < n; ++t) {
      const std::vector<double> row(x.f32() + t * d, x.f32() + (t + 1) * d);
      std::vector<double> score = project(p.routers[0]->value.f32(), row, experts);
      for (double& s : score) s = 1 / (1 + std::exp(-s));
      std::vector<int64_t> order{0, 1, 2, 3};
      std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        const auto value = [&](int64_t e) {
          return score[static_cast<size_t>(e)] + static_cast<double>(p.balance_bias.f32()[e]);
        };
        return value(a) > value(b);
      });
      const double sum = score[static_cast<size_t>(order[0])] + score[static_cast<size_t>(order[1])];
      std::vector<double> expected = feed_forward(p.shared_gate_proj->value.f32(), p.shared_up_proj->value.f32(),
                                                  p.shared_down_proj->value.f32(), row, shared * f);
      for (int64_t j = 0; j < k; ++j) {
        const int64_t e = order[static_cast<size_t>(j)];
        EXPECT_EQ(routing.index.i32()[t * k + j], e) << "token " << t;
        const std::vector<double> out =
            feed_forward(p.gate_proj->value.f32() + e * f * d, p.up_proj->value.f32() + e * f * d,
                         p.down_proj->value.f32() + e * f * d, row, f);
        for (size_t i = 0; i < out.size(); ++i) expected[i] += score[static_cast<size_t>(e)] / sum * out[i];
      }
      for (int64_t i = 0; i < d; ++i)
        EXPECT_NEAR(y.value.f32()[t * d + i], expected[static_cast<size_t>(i)], 2e-5)
            << kernels->name << " token " << t;
    }
  }
}

TEST(MoeLayer, WithEveryExpertChosenEachGetsEveryToken) {
  const auto world = make_single_communicator();
  ProcessGroups groups(*world, 1);
  const int64_t n = 7, d = 6, f = 5, experts = 4;
  const MoeConfig config{.experts = experts, .top_k = experts, .shared_experts = 0, .intermediate = f};
  ParameterSet set;
  MoeParameters p;
  p.routers = {&set.add("router", {experts, d})};
  p.gate_proj = &set.add_experts("gate", {experts, f, d}, 0, experts);
  p.up_proj = &set.add_experts("up", {experts, f, d}, 0, experts);
  p.down_proj = &set.add_experts("down", {experts, d, f}, 0, experts);
  set.allocate_values();
  uint32_t stream = 10;
  for (Parameter& q : set.all()) q.value.copy_from(random_tensor(q.value.shape(), stream++, 0.7));
  // Four copies of one expert are one dense layer, whatever the weights: they sum to one.
  for (Parameter* q : {p.gate_proj, p.up_proj, p.down_proj})
    for (int64_t e = 1; e < experts; ++e) q->value.rows(e, 1).copy_from(q->value.rows(0, 1));
  p.balance_bias = floats({0.3F, 0, -0.3F, 0}, {4});
  const Tensor x = random_tensor({n, d}, 1);
  Tape tape(cpu::kernels(), Tape::Mode::kForwardOnly);
  Routing routing;
  MoeVisit visit;
  visit.routing = &routing;
  const Variable y = moe_forward(tape, groups, config, p, visit, Tape::constant(x));
  std::vector<int64_t> load(static_cast<size_t>(experts), 0);
  for (int64_t i = 0; i < routing.index.count(); ++i) ++load[static_cast<size_t>(routing.index.i32()[i])];
  EXPECT_EQ(load, std::vector<int64_t>(static_cast<size_t>(experts), n));
  const auto weight = [](const Parameter* q) {
    return Tape::constant(q->value.rows(0, 1).view({q->value.dim(1), q->value.dim(2)}));
  };
  const Variable hidden = swiglu(tape, linear(tape, Tape::constant(x), weight(p.gate_proj)),
                                 linear(tape, Tape::constant(x), weight(p.up_proj)));
  const Variable dense = linear(tape, hidden, weight(p.down_proj));
  for (int64_t i = 0; i < dense.value.count(); ++i)
    EXPECT_NEAR(y.value.f32()[i], dense.value.f32()[i], 1e-5 * (1 + std::abs(dense.value.f32()[i])));
}

TEST(Capacity, SlotsFollowTheFactorAndAreAtLeastOne) {
  EXPECT_EQ(capacity_slots(1.5, 64, 2, 8), 24);
  EXPECT_EQ(capacity_slots(1.0, 5, 2, 4), 2);   // 2.5
  EXPECT_EQ(capacity_slots(1.25, 7, 3, 8), 3);  // 3.28
  EXPECT_EQ(capacity_slots(0.1, 1, 1, 8), 1);
  EXPECT_EQ(capacity_slots(1.5, 0, 2, 8), 1);
}

TEST(Capacity, DropsTheLowestWeightsOfAFullExpert) {
  // Factor 1 of 4 tokens, k 2, 4 experts: two slots each. Expert 0 has four.
  const Tensor index = integers({0, 1, 0, 2, 0, 3, 0, 1}, {4, 2});
  const Tensor weights = floats({0.4F, 0.6F, 0.9F, 0.1F, 0.7F, 0.3F, 0.5F, 0.5F}, {4, 2});
  EXPECT_EQ(keep_of(CapacityScope::kRank, 1, 4, index, weights), (std::vector<int>{0, 1, 1, 1, 1, 1, 0, 1}));
  EXPECT_EQ(keep_of(CapacityScope::kGlobal, 1, 4, index, weights), (std::vector<int>{0, 1, 1, 1, 1, 1, 0, 1}));
}

TEST(Capacity, EqualWeightsStayInTokenOrder) {
  const Tensor index = integers({0, 1, 2, 0, 0, 3, 0, 1}, {4, 2});
  const Tensor weights = floats(std::vector<float>(8, 0.5F), {4, 2});
  EXPECT_EQ(keep_of(CapacityScope::kRank, 1, 4, index, weights), (std::vector<int>{1, 1, 1, 1, 0, 1, 0, 1}));
}

TEST(Capacity, NothingIsSaidWhereNothingIsFull) {
  const Tensor index = integers({0, 1, 2, 3, 0, 1, 2, 3}, {4, 2});
  const Tensor weights = floats(std::vector<float>(8, 0.5F), {4, 2});
  EXPECT_TRUE(keep_of(CapacityScope::kRank, 1, 4, index, weights).empty());
}

TEST(BalanceBias, MovesTowardsTheMeanByTheSign) {
  const Tensor bias = floats({0, 0.5F, -1, 0}, {4});
  const std::vector<int64_t> load{10, 30, 20, 20};  // mean 20
  update_balance_bias(load, 0.125F, bias);
  const std::vector<float> expected{0.125F, 0.375F, -1, 0};
  for (size_t e = 0; e < 4; ++e) EXPECT_EQ(bias.f32()[e], expected[e]);
}

TEST(BalanceBias, AFractionalMeanIsComparedExactly) {
  const Tensor bias = floats({0, 0, 0}, {3});
  const std::vector<int64_t> load{3, 3, 4};  // mean 3.33
  update_balance_bias(load, 0.5F, bias);
  const std::vector<float> expected{0.5F, 0.5F, -0.5F};
  for (size_t e = 0; e < 3; ++e) EXPECT_EQ(bias.f32()[e], expected[e]);
  const std::vector<int64_t> none{0, 0, 0};
  update_balance_bias(none, 0.5F, bias);
  EXPECT_EQ(bias.f32()[0], 0.5F);
}

}  // namespace
}  // namespace heddle
