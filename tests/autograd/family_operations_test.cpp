// The operations of the model family: gradients against differences, and what parts of a tensor without a use receive.
#include <limits>

#include "tests/autograd/gradient_check.h"

namespace heddle {
namespace {

using Inputs = std::vector<Variable>;

/// Positive numbers around 1/2.
Tensor positive_tensor(const Shape& shape, uint32_t stream) {
  Tensor t = random_tensor(shape, stream, 0.1);
  for (float& value : t.floats()) value += 0.6F;
  return t;
}

TEST(FamilyGradient, RmsNormOfEachHead) {
  expect_gradients([](Tape& t, const Inputs& x) { return Inputs{rmsnorm(t, x[0], x[1], 1e-6F, nullptr, 4)}; },
                   {random_tensor({3, 12}, 1), random_tensor({4}, 2)});
  expect_gradients([](Tape& t, const Inputs& x) { return Inputs{rmsnorm(t, x[0], {}, 1e-6F, nullptr, 4)}; },
                   {random_tensor({3, 12}, 1)});
}

TEST(FamilyOperation, RmsNormOfEachHeadEqualsThatOfTheHeadsAsRows) {
  const Tensor x = random_tensor({3, 12}, 1), gain = random_tensor({4}, 2);
  Tape tape(cpu::kernels(), Tape::Mode::kForwardOnly);
  Tensor inverse;
  const Tensor y = rmsnorm(tape, Tape::constant(x), Tape::constant(gain), 1e-6F, &inverse, 4).value;
  const Tensor rows = rmsnorm(tape, Tape::constant(x.view({9, 4})), Tape::constant(gain), 1e-6F).value;
  EXPECT_EQ(y.shape(), x.shape());
  EXPECT_EQ(inverse.shape(), (Shape{9}));
  for (int64_t i = 0; i < y.count(); ++i) EXPECT_EQ(y.f32()[i], rows.f32()[i]);
}

TEST(FamilyGradient, ActivationsSoftmaxScale) {
  const Tensor x = random_tensor({3, 11}, 1);
  for (const Activation kind : {Activation::kGelu, Activation::kRelu2})
    expect_gradients([kind](Tape& t, const Inputs& in) { return Inputs{activation(t, kind, in[0])}; }, {x});
  expect_gradients([](Tape& t, const Inputs& in) { return Inputs{softmax(t, in[0])}; }, {x});
  expect_gradients([](Tape& t, const Inputs& in) { return Inputs{scale(t, -2.5F, in[0])}; }, {x});
}

TEST(FamilyGradient, LinearPair) {
  expect_gradients([](Tape& t, const Inputs& x) { return Inputs{linear_pair(t, x[0], x[1], x[2])}; },
                   {random_tensor({5, 4}, 1), random_tensor({5, 4}, 2), random_tensor({3, 8}, 3)});
  expect_gradients([](Tape& t, const Inputs& x) { return Inputs{linear_pair(t, x[0], x[0], x[1])}; },
                   {random_tensor({5, 4}, 1), random_tensor({3, 8}, 3)});
}

TEST(FamilyOperation, LinearPairByHand) {
  const Tensor a = Tensor::empty({1, 2}, Purpose::kActivations), b = a.clone();
  const Tensor weight = Tensor::empty({2, 4}, Purpose::kActivations);
  std::copy_n(std::vector<float>{1, 2}.begin(), 2, a.f32());
  std::copy_n(std::vector<float>{3, 4}.begin(), 2, b.f32());
  std::copy_n(std::vector<float>{1, 10, 100, 1000, 0, 1, 0, 2}.begin(), 8, weight.f32());
  for (const Kernels* kernels : {&ref::kernels(), &cpu::kernels()}) {
    Tape tape(*kernels, Tape::Mode::kForwardOnly);
    const Tensor y = linear_pair(tape, Tape::constant(a), Tape::constant(b), Tape::constant(weight)).value;
    EXPECT_EQ(y.f32()[0], 4321);
    EXPECT_EQ(y.f32()[1], 10);
  }
}

TEST(FamilyGradient, AddRow) {
  for (const int64_t row : {0, 2})
    expect_gradients([row](Tape& t, const Inputs& x) { return Inputs{add_row(t, x[0], x[1], row)}; },
                     {random_tensor({5, 4}, 1), random_tensor({3, 4}, 2)});
  expect_gradients([](Tape& t, const Inputs& x) { return Inputs{add_row(t, x[0], x[1], 0)}; },
                   {random_tensor({5, 4}, 1), random_tensor({4}, 2)});
  expect_gradients(
      [](Tape& t, const Inputs& x) {
        return Inputs{add_row(t, add_row(t, x[0], x[1], 1), x[1], 2), x[0]};
      },
      {random_tensor({5, 4}, 1), random_tensor({3, 4}, 2)});
}

TEST(FamilyGradient, Modulate) {
  expect_gradients([](Tape& t, const Inputs& x) { return Inputs{modulate(t, x[0], x[1])}; },
                   {random_tensor({5, 4}, 1), random_tensor({5, 8}, 2)});
  // One modulation serves several norms.
  expect_gradients([](Tape& t, const Inputs& x) { return Inputs{modulate(t, modulate(t, x[0], x[1]), x[1])}; },
                   {random_tensor({5, 4}, 1, 0.5), random_tensor({5, 8}, 2, 0.5)});
}

TEST(FamilyGradient, WeightedSums) {
  const Tensor a = random_tensor({3, 5}, 1), b = random_tensor({3, 5}, 2), weights = random_tensor({2, 3}, 3);
  expect_gradients(
      [](Tape& t, const Inputs& x) {
        return Inputs{weighted_sum(t, std::vector<Variable>{x[0], x[1], x[0]}, x[2], 2)};
      },
      {a, b, weights});
  expect_gradients([](Tape& t, const Inputs& x) { return Inputs{add_weighted(t, x[0], x[2], 4, x[1])}; },
                   {a, b, weights});
  expect_gradients([](Tape& t, const Inputs& x) { return Inputs{add_weighted(t, x[0], x[1], 0, x[0])}; },
                   {a, random_tensor({1}, 4)});
  // Lanes mixed with a matrix: every weight has its own term.
  expect_gradients(
      [](Tape& t, const Inputs& x) {
        const std::vector<Variable> lanes{x[0], x[1]};
        Inputs mixed;
        for (const int64_t i : {0, 1})
          mixed.push_back(add_weighted(t, weighted_sum(t, lanes, x[2], 2 * i), x[2], 4 + i, x[0]));
        return mixed;
      },
      {a, b, weights});
}

TEST(FamilyOperation, WeightedSumsByHand) {
  const Tensor x = Tensor::empty({2}, Purpose::kActivations), y = x.clone(),
               weights = Tensor::zeros({3}, Purpose::kActivations);
  x.f32()[0] = 1, x.f32()[1] = 2, y.f32()[0] = 10, y.f32()[1] = 20;
  weights.f32()[1] = 3, weights.f32()[2] = 0.5F;
  for (const Kernels* kernels : {&ref::kernels(), &cpu::kernels()}) {
    Tape tape(*kernels, Tape::Mode::kForwardOnly);
    const std::vector<Variable> xs{Tape::constant(x), Tape::constant(y)};
    const Tensor sum = weighted_sum(tape, xs, Tape::constant(weights), 1).value;
    EXPECT_EQ(sum.f32()[0], 8);
    EXPECT_EQ(sum.f32()[1], 16);
    const Tensor added = add_weighted(tape, xs[0], Tape::constant(weights), 2, xs[1]).value;
    EXPECT_EQ(added.f32()[0], 6);
    EXPECT_EQ(added.f32()[1], 12);
    EXPECT_EQ(x.f32()[0], 1) << "nothing is consumed";
  }
}

TEST(FamilyOperation, WeightsWithoutGradientPassTheirShare) {
  const Tensor a = random_tensor({3, 5}, 1), b = random_tensor({3, 5}, 2), weights = random_tensor({2}, 3);
  expect_gradients(
      [&](Tape& t, const Inputs& x) {
        const Variable constant = Tape::constant(weights);
        return Inputs{add_weighted(t, weighted_sum(t, x, constant, 0), constant, 1, x[1])};
      },
      {a, b});
  expect_gradients(
      [&](Tape& t, const Inputs& x) {
        const std::vector<Variable> constants{Tape::constant(a), Tape::constant(b)};
        return Inputs{add_weighted(t, weighted_sum(t, constants, x[0], 0), x[0], 1, constants[0])};
      },
      {weights});
}

TEST(FamilyGradient, DecayInjection) {
  const std::vector<Tensor> x{random_tensor({5, 4}, 1), random_tensor({5, 4}, 2), random_tensor({4}, 3),
                              random_tensor({4}, 4)};
  expect_gradients([](Tape& t, const Inputs& in) { return Inputs{decay_injection(t, in[0], in[1], in[2], in[3])}; }, x);
  expect_gradients([](Tape& t, const Inputs& in) { return Inputs{decay_injection(t, in[0], in[0], in[1], in[2])}; },
                   {x[0], x[2], x[3]});
}

TEST(FamilyGradient, ExpertShare) {
  expect_gradients([](Tape& t, const Inputs& x) { return Inputs{expert_share(t, x[0])}; },
                   {positive_tensor({6, 5}, 1)});
  // Scores that are read by two operations.
  expect_gradients(
      [](Tape& t, const Inputs& x) {
        const Variable scores = softmax(t, x[0]);
        return Inputs{expert_share(t, scores), linear_combination(t, 1, scores, 1, scores)};
      },
      {random_tensor({6, 5}, 1)});
}

TEST(RouterZLoss, ItsGradientJoinsThatOfAConsumerOfTheLogits) {
  const Tensor x = random_tensor({6, 5}, 1), weight = random_tensor({4, 5}, 2), seed = random_tensor({6, 4}, 3);
  for (const Kernels* kernels : {&ref::kernels(), &cpu::kernels()}) {
    for (const bool sigmoid_scores : {true, false}) {
      const auto run = [&](Tape& tape, const Variable& vx, const Variable& vw, float gradient_scale) {
        const Variable logits = linear(tape, vx, vw);
        const double z = router_z_loss(tape, logits, gradient_scale);
        const Variable scores = sigmoid_scores ? sigmoid(tape, logits) : softmax(tape, logits);
        if (tape.recording()) seed_gradient(tape, scores, seed);
        return 0.3 * z + dot(scores.value, seed);
      };
      Tape tape(*kernels);
      const Variable vx = tape.leaf(x), vw = tape.leaf(weight);
      run(tape, vx, vw, 0.3F);
      tape.backward();
      const Tensor dx = take_gradient(vx.slot), dw = take_gradient(vw.slot);
      for (uint32_t trial = 0; trial < 4; ++trial) {
        const Tensor along_x = random_tensor({6, 5}, 10 + trial), along_w = random_tensor({4, 5}, 20 + trial);
        const auto loss = [&](double step) {
          Tape forward(*kernels, Tape::Mode::kForwardOnly);
          return run(forward, moved(x, step, along_x), moved(weight, step, along_w), 0);
        };
        const double h = 5e-3, measured = (loss(h) - loss(-h)) / (2 * h);
        const double expected = dot(dx, along_x) + dot(dw, along_w);
        EXPECT_NEAR(measured, expected, 3e-3 * std::max(1.0, std::abs(expected))) << kernels->name;
      }
    }
  }
}

TEST(RouterZLoss, ByHandAndWithoutAnybodyElse) {
  const Tensor x = Tensor::zeros({2, 2}, Purpose::kActivations);
  const double log2 = std::log(2.0);
  for (const Kernels* kernels : {&ref::kernels(), &cpu::kernels()}) {
    Tape tape(*kernels);
    const Variable logits = tape.leaf(x);
    EXPECT_NEAR(router_z_loss(tape, logits, 0.5F), 2 * log2 * log2, 1e-6);
    EXPECT_NEAR(router_z_loss(tape, logits, 0.5F), 2 * log2 * log2, 1e-6);
    EXPECT_NEAR(router_z_loss(tape, Tape::constant(x), 0.5F), 2 * log2 * log2, 1e-6);
    const Tensor gradient = take_gradient(logits.slot);
    for (const float g : gradient.floats()) EXPECT_NEAR(static_cast<double>(g), log2, 1e-6) << "twice 0.5 * 2 ln 2 / 2";
  }
}

TEST(FamilyOperation, UnusedPartsOfAParameterGetExactlyZeroOverStaleMemory) {
  ParameterSet parameters;
  Parameter& table = parameters.add("table", {3, 4});
  Parameter& weights = parameters.add("weights", {5});
  parameters.allocate_values();
  table.value.copy_from(random_tensor({3, 4}, 1));
  weights.value.copy_from(random_tensor({5}, 2));
  parameters.allocate_gradients();
  for (const Kernels* kernels : {&ref::kernels(), &cpu::kernels()}) {
    for (const int64_t rows : {2, 0}) {
      parameters.clear_gradients();
      for (Parameter& p : parameters.all())
        std::fill_n(p.gradient.f32(), p.gradient.count(), std::numeric_limits<float>::quiet_NaN());
      Tape tape(*kernels);
      const Variable x = Tape::constant(random_tensor({rows, 4}, 3)), w = tape.parameter(weights);
      const Variable with_row = add_row(tape, x, tape.parameter(table), 1);
      const Variable sum = weighted_sum(tape, std::vector<Variable>{x, with_row}, w, 1);
      const Variable y = add_weighted(tape, sum, w, 4, with_row);
      seed_gradient(tape, y, random_tensor({rows, 4}, 4));
      tape.backward();
      ASSERT_TRUE(table.has_gradient && weights.has_gradient);
      for (int64_t i = 0; i < 12; ++i)
        EXPECT_EQ(table.gradient.f32()[i] != 0.0F, rows > 0 && i / 4 == 1) << kernels->name << " table " << i;
      for (int64_t i = 0; i < 5; ++i)
        EXPECT_EQ(weights.gradient.f32()[i] != 0.0F, rows > 0 && i != 0 && i != 3) << kernels->name << " weight " << i;
    }
  }
}

TEST(FamilyOperation, EmptyInputsGiveEmptyResultsAndZeroWeightGradients) {
  for (const Kernels* kernels : {&ref::kernels(), &cpu::kernels()}) {
    const auto check = [&](const Operation& operation, const std::vector<Tensor>& x) {
      for (const Tensor& g : gradients_of(*kernels, operation, x)) {
        ASSERT_TRUE(g.defined());
        for (const float value : g.floats()) EXPECT_EQ(value, 0.0F);
      }
    };
    const Tensor empty = random_tensor({0, 4}, 1), vector = random_tensor({4}, 2);
    check([](Tape& t, const Inputs& x) { return Inputs{rmsnorm(t, x[0], x[1], 1e-6F, nullptr, 2)}; },
          {empty, random_tensor({2}, 2)});
    check([](Tape& t, const Inputs& x) { return Inputs{activation(t, Activation::kGelu, x[0])}; }, {empty});
    check([](Tape& t, const Inputs& x) { return Inputs{softmax(t, x[0])}; }, {empty});
    check([](Tape& t, const Inputs& x) { return Inputs{scale(t, 2, x[0])}; }, {empty});
    check([](Tape& t, const Inputs& x) { return Inputs{linear_pair(t, x[0], x[1], x[2])}; },
          {empty, empty, random_tensor({3, 8}, 2)});
    check([](Tape& t, const Inputs& x) { return Inputs{add_row(t, x[0], x[1], 0)}; }, {empty, vector});
    check([](Tape& t, const Inputs& x) { return Inputs{modulate(t, x[0], x[1])}; }, {empty, random_tensor({0, 8}, 2)});
    check([](Tape& t, const Inputs& x) { return Inputs{weighted_sum(t, std::vector<Variable>{x[0]}, x[1], 2)}; },
          {empty, vector});
    check([](Tape& t, const Inputs& x) { return Inputs{decay_injection(t, x[0], x[1], x[2], x[3])}; },
          {empty, empty, vector, vector});
    check([](Tape& t, const Inputs& x) { return Inputs{expert_share(t, x[0])}; }, {empty});
    Tape tape(*kernels);
    EXPECT_EQ(router_z_loss(tape, tape.leaf(empty), 1), 0);
    EXPECT_EQ(expert_share(tape, Tape::constant(empty)).value.floats()[3], 0.0F);
  }
}

}  // namespace
}  // namespace heddle
