// Gradients against central differences: for a random direction d through all inputs, and a loss that weighs the output
// with random numbers, (f(x + h d) - f(x - h d)) / 2h must equal the sum of gradient * d. Sums are taken in double.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "autograd/operations.h"
#include "support/random.h"

namespace heddle {

inline Tensor random_tensor(Shape shape, uint32_t stream, double deviation = 1) {
  Tensor t = Tensor::empty(std::move(shape), Purpose::kActivations);
  for (int64_t i = 0; i < t.count(); ++i)
    t.f32()[i] = static_cast<float>(deviation * random_normal(3, Draw::kTest, stream, static_cast<uint64_t>(i)));
  return t;
}

inline Tensor integers(std::vector<int32_t> values, Shape shape = {}) {
  if (shape.empty()) shape = {static_cast<int64_t>(values.size())};
  Tensor t = Tensor::empty(std::move(shape), Purpose::kActivations, DType::kInt32);
  std::copy(values.begin(), values.end(), t.i32());
  return t;
}

inline double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.count(); ++i) sum += static_cast<double>(a.f32()[i]) * static_cast<double>(b.f32()[i]);
  return sum;
}

/// Outputs of an operation on its inputs. The inputs are copies: an operation may consume them.
using Operation = std::function<std::vector<Variable>(Tape&, const std::vector<Variable>&)>;

/// x + step * direction, as an input without gradient.
inline Variable moved(const Tensor& x, double step, const Tensor& direction) {
  const Tensor m = x.clone();
  for (int64_t i = 0; i < m.count(); ++i)
    m.f32()[i] = static_cast<float>(static_cast<double>(x.f32()[i]) + step * static_cast<double>(direction.f32()[i]));
  return Tape::constant(m);
}

/// A root of the tape: sends `gradient` into v's slot.
inline void seed_gradient(Tape& tape, const Variable& v, const Tensor& gradient) {
  ASSERT_TRUE(v.wants_gradient());
  pass_gradient(tape.kernels(), v.slot, gradient.clone());
}

/// Value of the weighted outputs at x + step * direction.
inline double weighted(const Kernels& kernels, const Operation& operation, const std::vector<Tensor>& x,
                       const std::vector<Tensor>& direction, double step) {
  Tape tape(kernels, Tape::Mode::kForwardOnly);
  std::vector<Variable> inputs;
  for (size_t i = 0; i < x.size(); ++i) inputs.push_back(moved(x[i], step, direction[i]));
  double sum = 0;
  uint32_t stream = 900;
  for (const Variable& y : operation(tape, inputs)) sum += dot(y.value, random_tensor(y.value.shape(), stream++));
  return sum;
}

/// Gradients of the weighted outputs with respect to every input; the memory they go to holds NaN before.
inline std::vector<Tensor> gradients_of(const Kernels& kernels, const Operation& operation,
                                        const std::vector<Tensor>& x) {
  Tape tape(kernels);
  std::vector<Variable> inputs;
  for (const Tensor& t : x) inputs.push_back(tape.leaf(t.clone()));
  uint32_t stream = 900;
  for (const Variable& y : operation(tape, inputs)) seed_gradient(tape, y, random_tensor(y.value.shape(), stream++));
  tape.backward();
  std::vector<Tensor> gradients;
  for (const Variable& input : inputs) gradients.push_back(take_gradient(input.slot));
  return gradients;
}

/// Each input alone and all together, along three random directions.
inline void expect_gradients(const Operation& operation, const std::vector<Tensor>& x, double tolerance = 5e-3,
                             double step = 5e-3) {
  for (const Kernels* kernels : {&ref::kernels(), &cpu::kernels()}) {
    const std::vector<Tensor> gradients = gradients_of(*kernels, operation, x);
    for (const Tensor& g : gradients) ASSERT_TRUE(g.defined());
    for (size_t which = 0; which <= x.size(); ++which) {
      for (uint32_t trial = 0; trial < 3; ++trial) {
        std::vector<Tensor> direction;
        double expected = 0, size = 0;
        for (size_t i = 0; i < x.size(); ++i) {
          Tensor d = random_tensor(x[i].shape(), 100 * (trial + 1) + static_cast<uint32_t>(i));
          if (which < x.size() && which != i) d.fill_zero();
          expected += dot(gradients[i], d);
          size += dot(gradients[i], gradients[i]);
          direction.push_back(d);
        }
        const double measured =
            (weighted(*kernels, operation, x, direction, step) - weighted(*kernels, operation, x, direction, -step)) /
            (2 * step);
        EXPECT_NEAR(measured, expected, tolerance * std::max(std::abs(expected), 0.3 * std::sqrt(size)))
            << kernels->name << ", input " << which << ", direction " << trial;
      }
    }
  }
}

}  // namespace heddle
