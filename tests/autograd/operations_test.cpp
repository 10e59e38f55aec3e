// Every operation's gradients against central differences, with both kernel tables.
#include "tests/autograd/gradient_check.h"

namespace heddle {
namespace {

using Inputs = std::vector<Variable>;

TEST(OperationGradient, Embedding) {
  const Tensor tokens = integers({3, 0, 3, 4, 1});
  expect_gradients([&](Tape& t, const Inputs& x) { return Inputs{embedding(t, tokens, x[0], 2.5F)}; },
                   {random_tensor({6, 4}, 1)});
}

TEST(OperationGradient, Linear) {
  expect_gradients([](Tape& t, const Inputs& x) { return Inputs{linear(t, x[0], x[1])}; },
                   {random_tensor({5, 7}, 1), random_tensor({3, 7}, 2)});
}

TEST(OperationGradient, GroupedLinearWithAnIdleGroup) {
  const auto offsets = std::make_shared<const std::vector<int64_t>>(std::vector<int64_t>{0, 2, 2, 5});
  expect_gradients([&](Tape& t, const Inputs& x) { return Inputs{grouped_linear(t, x[0], x[1], offsets)}; },
                   {random_tensor({5, 4}, 1), random_tensor({3, 6, 4}, 2)});
}

TEST(OperationGradient, RmsNormWithAndWithoutGain) {
  expect_gradients([](Tape& t, const Inputs& x) { return Inputs{rmsnorm(t, x[0], x[1], 1e-6F)}; },
                   {random_tensor({4, 9}, 1), random_tensor({9}, 2)});
  expect_gradients([](Tape& t, const Inputs& x) { return Inputs{rmsnorm(t, x[0], {}, 1e-6F)}; },
                   {random_tensor({4, 9}, 1)});
}

TEST(OperationGradient, Rotary) {
  const Tensor position = integers({0, 1, 2, 0, 1, 5});
  const RotaryTable table = make_rotary_table(6, 8, 10000);
  expect_gradients([&](Tape& t, const Inputs& x) { return Inputs{rotary(t, x[0], 8, position, table)}; },
                   {random_tensor({6, 16}, 1)});
}

TEST(OperationGradient, AttentionOfGroupedHeadsInDocuments) {
  const AttentionShape shape{2, 5, 4, 2, 8, 0.35F};
  const Tensor start = integers({0, 0, 2, 2, 2, 0, 0, 0, 0, 4});
  expect_gradients([&](Tape& t, const Inputs& x) { return Inputs{attention(t, shape, x[0], x[1], x[2], start)}; },
                   {random_tensor({10, 32}, 1), random_tensor({10, 16}, 2), random_tensor({10, 16}, 3)});
  expect_gradients([&](Tape& t, const Inputs& x) { return Inputs{attention(t, shape, x[0], x[1], x[2], Tensor())}; },
                   {random_tensor({10, 32}, 1), random_tensor({10, 16}, 2), random_tensor({10, 16}, 3)});
}

TEST(OperationGradient, SigmoidGateSwigluSigmoid) {
  const std::vector<Tensor> two{random_tensor({3, 11}, 1), random_tensor({3, 11}, 2)};
  expect_gradients([](Tape& t, const Inputs& x) { return Inputs{sigmoid_gate(t, x[0], x[1])}; }, two);
  expect_gradients([](Tape& t, const Inputs& x) { return Inputs{swiglu(t, x[0], x[1])}; }, two);
  expect_gradients([](Tape& t, const Inputs& x) { return Inputs{sigmoid(t, x[0])}; }, {two[0]});
}

TEST(OperationGradient, LinearCombinationAndResidual) {
  const std::vector<Tensor> two{random_tensor({3, 5}, 1), random_tensor({3, 5}, 2)};
  expect_gradients([](Tape& t, const Inputs& x) { return Inputs{linear_combination(t, 0.25F, x[0], -1.5F, x[1])}; },
                   two);
  expect_gradients([](Tape& t, const Inputs& x) { return Inputs{residual_add(t, x[0], 0.3F, x[1])}; }, two);
}

TEST(OperationGradient, LoopingResidualOverThreeBlocks) {
  // The second and third block read both accumulators; the third starts a new loop, with an empty local one.
  const Operation blocks = [](Tape& t, const Inputs& x) {
    LoopingAccumulators a;
    const Variable first = looping_residual(t, x[0], x[1], 0.4F, 0.5, 0.7, a);
    const Variable second = looping_residual(t, first, x[2], 0.4F, 0.5, 0.7, a);
    a.reset_local();
    const Variable third = looping_residual(t, second, x[3], 0.4F, 0.5, 0.7, a);
    return Inputs{third, a.n_global};
  };
  expect_gradients(
      blocks, {random_tensor({2, 5}, 1), random_tensor({2, 5}, 2), random_tensor({2, 5}, 3), random_tensor({2, 5}, 4)});
}

TEST(OperationGradient, RouteWeights) {
  const Tensor index = integers({0, 3, 2, 1, 4, 0}, {3, 2});
  const Tensor keep = Tensor::empty({3, 2}, Purpose::kActivations, DType::kUint8);
  std::fill_n(keep.u8(), 6, uint8_t{1});
  keep.u8()[3] = 0;
  Tensor scores = random_tensor({3, 5}, 1, 0.1);
  for (float& s : scores.floats()) s += 0.6F;
  for (const bool renormalise : {true, false})
    for (const Tensor& kept : {Tensor(), keep})
      expect_gradients(
          [&](Tape& t, const Inputs& x) { return Inputs{route_weights(t, x[0], index, kept, renormalise)}; }, {scores});
}

TEST(OperationGradient, ACombinationThatReusesAnInputAddsItsGradients) {
  expect_gradients(
      [](Tape& t, const Inputs& x) {
        const Variable y = swiglu(t, x[0], x[0]);
        return Inputs{linear_combination(t, 1.0F, y, 2.0F, x[0])};
      },
      {random_tensor({3, 5}, 1)});
}

TEST(Operation, EmptyInputsGiveEmptyResultsAndZeroWeightGradients) {
  const auto offsets = std::make_shared<const std::vector<int64_t>>(std::vector<int64_t>{0, 0, 0});
  const Tensor none = integers({}, {0});
  for (const Kernels* kernels : {&ref::kernels(), &cpu::kernels()}) {
    const auto check = [&](const Operation& operation, const std::vector<Tensor>& x) {
      for (const Tensor& g : gradients_of(*kernels, operation, x)) {
        ASSERT_TRUE(g.defined());
        for (const float value : g.floats()) EXPECT_EQ(value, 0.0F);
      }
    };
    const Tensor empty = random_tensor({0, 4}, 1);
    check([&](Tape& t, const Inputs& x) { return Inputs{embedding(t, none, x[0], 1.0F)}; }, {random_tensor({5, 4}, 2)});
    check([](Tape& t, const Inputs& x) { return Inputs{linear(t, x[0], x[1])}; }, {empty, random_tensor({3, 4}, 2)});
    check([&](Tape& t, const Inputs& x) { return Inputs{grouped_linear(t, x[0], x[1], offsets)}; },
          {empty, random_tensor({2, 3, 4}, 2)});
    check([](Tape& t, const Inputs& x) { return Inputs{rmsnorm(t, x[0], x[1], 1e-6F)}; },
          {empty, random_tensor({4}, 2)});
    check([](Tape& t, const Inputs& x) { return Inputs{swiglu(t, x[0], x[1])}; }, {empty, empty});
  }
}

}  // namespace
}  // namespace heddle
