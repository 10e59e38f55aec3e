// The tape itself: memory, accumulation into parameters, and the head that makes gradients in chunks.
#include <limits>

#include "tests/autograd/gradient_check.h"

namespace heddle {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void fill_nan(ParameterSet& parameters) {
  for (Parameter& p : parameters.all()) std::fill_n(p.gradient.f32(), p.gradient.count(), kNan);
}

double distance(const Tensor& a, const Tensor& b) {
  double difference = 0, size = 0;
  for (int64_t i = 0; i < b.count(); ++i) {
    const double x = static_cast<double>(a.f32()[i]), y = static_cast<double>(b.f32()[i]);
    difference += (x - y) * (x - y);
    size += y * y;
  }
  return std::sqrt(difference / size);
}

TEST(Tape, FreesWhatItSavedWhileItUnwinds) {
  const auto held = [] { return Allocator::host().use().total; };
  ParameterSet parameters;
  Parameter& weight = parameters.add("w", {64, 64});
  parameters.allocate_values();
  weight.value.copy_from(random_tensor({64, 64}, 1, 0.1));
  parameters.allocate_gradients();
  const int64_t before = held();
  {
    Tape tape(cpu::kernels());
    Variable x = Tape::constant(random_tensor({256, 64}, 2));
    const Variable w = tape.parameter(weight);
    std::vector<int64_t> during;
    for (int layer = 0; layer < 8; ++layer) {
      x = rmsnorm(tape, linear(tape, x, w), {}, 1e-6F);
      if (x.wants_gradient()) tape.on_backward([&during, held] { during.push_back(held()); });
    }
    const Tensor seed = random_tensor({256, 64}, 3);
    pass_gradient(tape.kernels(), x.slot, seed.clone());
    x = {};
    EXPECT_GT(held(), before + 8 * 256 * 64 * 4) << "a tape that saves nothing cannot free anything";
    tape.backward();
    ASSERT_EQ(during.size(), 8U);
    for (size_t i = 1; i < during.size(); ++i)
      EXPECT_LE(during[i] + 256 * 64 * 4, during[i - 1]) << "layer " << 8 - i << " was not freed when it was done";
  }
  EXPECT_EQ(held(), before);
}

TEST(Tape, IdleExpertsGetExactlyZeroOverStaleMemory) {
  ParameterSet parameters;
  Parameter& weight = parameters.add("experts", {4, 3, 5});
  parameters.allocate_values();
  weight.value.copy_from(random_tensor({4, 3, 5}, 1));
  parameters.allocate_gradients();
  const auto offsets = std::make_shared<const std::vector<int64_t>>(std::vector<int64_t>{0, 0, 3, 3, 4});
  for (const Kernels* kernels : {&ref::kernels(), &cpu::kernels()}) {
    parameters.clear_gradients();
    fill_nan(parameters);
    Tape tape(*kernels);
    const Variable y = grouped_linear(tape, Tape::constant(random_tensor({4, 5}, 2)), tape.parameter(weight), offsets);
    seed_gradient(tape, y, random_tensor({4, 3}, 3));
    tape.backward();
    ASSERT_TRUE(weight.has_gradient);
    for (int64_t i = 0; i < weight.gradient.count(); ++i) {
      const int64_t expert = i / 15;
      if (expert == 0 || expert == 2)
        EXPECT_EQ(weight.gradient.f32()[i], 0.0F) << kernels->name << " element " << i;
      else
        EXPECT_NE(weight.gradient.f32()[i], 0.0F) << kernels->name << " element " << i;
    }
  }
}

TEST(Tape, TwoMicroBatchesAddUpToOneBatch) {
  ParameterSet parameters;
  Parameter& table = parameters.add("table", {7, 6});
  Parameter& weight = parameters.add("weight", {7, 6});
  Parameter& gain = parameters.add("gain", {6});
  parameters.allocate_values();
  table.value.copy_from(random_tensor({7, 6}, 1));
  weight.value.copy_from(random_tensor({7, 6}, 2));
  gain.value.copy_from(random_tensor({6}, 3));
  parameters.allocate_gradients();
  const Tensor tokens = integers({0, 1, 2, 3, 4, 5, 6, 1}), targets = integers({1, 2, 3, kIgnoredTarget, 5, 6, 0, 2});
  const auto run = [&](const std::vector<std::pair<int64_t, int64_t>>& parts) {
    parameters.clear_gradients();
    fill_nan(parameters);
    double loss = 0;
    for (const auto& [first, count] : parts) {
      Tape tape(cpu::kernels());
      const Variable x = rmsnorm(tape, embedding(tape, tokens.rows(first, count), tape.parameter(table), 2.0F),
                                 tape.parameter(gain), 1e-6F);
      loss += cross_entropy_head(tape, x, tape.parameter(weight), targets.rows(first, count), {}, 0.125F).cross_entropy;
      tape.backward();
    }
    return loss;
  };
  const double whole = run({{0, 8}});
  std::vector<Tensor> expected;
  for (const Parameter& p : parameters.all()) expected.push_back(p.gradient.clone());
  for (const auto& parts :
       {std::vector<std::pair<int64_t, int64_t>>{{0, 5}, {5, 3}}, {{0, 0}, {0, 8}}, {{0, 8}, {8, 0}}}) {
    EXPECT_NEAR(run(parts), whole, 1e-6 * whole);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_LE(distance(parameters.all()[i].gradient, expected[i]), 1e-6) << parameters.all()[i].name;
  }
}

TEST(Tape, ForwardOnlyLeavesNothing) {
  ParameterSet parameters;
  Parameter& weight = parameters.add("w", {3, 3});
  parameters.allocate_values();
  parameters.allocate_gradients();
  Tape tape(cpu::kernels(), Tape::Mode::kForwardOnly);
  const Variable y = linear(tape, Tape::constant(random_tensor({2, 3}, 1)), tape.parameter(weight));
  EXPECT_FALSE(y.wants_gradient());
  tape.backward();
  EXPECT_FALSE(weight.has_gradient);
}

TEST(CrossEntropyHead, GradientAgreesWithDifferences) {
  const Tensor x = random_tensor({6, 5}, 1), weight = random_tensor({9, 5}, 2);
  const Tensor targets = integers({0, 8, kIgnoredTarget, 3, 3, 7});
  for (const HeadOptions& options : {HeadOptions{}, HeadOptions{0.7F, 0, 0}, HeadOptions{1, 3, 0},
                                     HeadOptions{1, 0, 0.2F}, HeadOptions{0.7F, 3, 0.2F}}) {
    for (const Kernels* kernels : {&ref::kernels(), &cpu::kernels()}) {
      Tape tape(*kernels);
      const Variable vx = tape.leaf(x), vw = tape.leaf(weight);
      cross_entropy_head(tape, vx, vw, targets, options, 0.5F);
      const Tensor dx = take_gradient(vx.slot), dw = take_gradient(vw.slot);
      for (uint32_t trial = 0; trial < 4; ++trial) {
        const Tensor along_x = random_tensor({6, 5}, 10 + trial), along_w = random_tensor({9, 5}, 20 + trial);
        const auto loss = [&](double step) {
          Tape forward(*kernels, Tape::Mode::kForwardOnly);
          const HeadSums sums =
              cross_entropy_head(forward, moved(x, step, along_x), moved(weight, step, along_w), targets, options, 0);
          return sums.cross_entropy + static_cast<double>(options.z_weight) * sums.logit_z;
        };
        const double h = 5e-3, measured = 0.5 * (loss(h) - loss(-h)) / (2 * h);
        const double expected = dot(dx, along_x) + dot(dw, along_w);
        EXPECT_NEAR(measured, expected, 2e-3 * std::max(1.0, std::abs(expected))) << kernels->name;
      }
      for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(dx.f32()[2 * 5 + i], 0.0F) << "an ignored target moves nothing";
    }
  }
}

TEST(CrossEntropyHead, SumsByHand) {
  // x W^T = (2, 0); times 1/2 and capped at 1: (tanh 1, 0). The second row does not count.
  const Tensor x = Tensor::zeros({2, 1}, Purpose::kActivations), weight = Tensor::zeros({2, 1}, Purpose::kActivations);
  x.f32()[0] = 1;
  weight.f32()[0] = 2;
  for (const Kernels* kernels : {&ref::kernels(), &cpu::kernels()}) {
    Tape tape(*kernels, Tape::Mode::kForwardOnly);
    const auto sums = [&](const HeadOptions& options) {
      return cross_entropy_head(tape, Tape::constant(x), Tape::constant(weight), integers({1, kIgnoredTarget}), options,
                                1);
    };
    const double plain = std::log(1 + std::exp(2.0)), capped = std::log(1 + std::exp(std::tanh(1.0)));
    EXPECT_NEAR(sums({}).cross_entropy, plain, 1e-6);
    EXPECT_NEAR(sums({}).logit_z, plain * plain, 1e-6) << "summed although it has no weight";
    EXPECT_NEAR(sums({0.5F, 1, 3}).cross_entropy, capped, 1e-6);
    EXPECT_NEAR(sums({0.5F, 1, 3}).logit_z, capped * capped, 1e-6);
    const Tensor logits = x.clone();
    apply_soft_cap(*kernels, 1, logits);
    EXPECT_NEAR(static_cast<double>(logits.f32()[0]), std::tanh(1.0), 1e-7);
  }
}

TEST(CrossEntropyHead, ChunksOfRowsEqualOneProduct) {
  // 65536 ids: chunks of 16 rows, so 40 rows make three. The reference is the whole softmax in double.
  const int64_t n = 40, width = 3, vocabulary = 65536;
  const Tensor x = random_tensor({n, width}, 1), weight = random_tensor({vocabulary, width}, 2);
  Tensor targets = Tensor::empty({n}, Purpose::kActivations, DType::kInt32);
  for (int64_t i = 0; i < n; ++i) targets.i32()[i] = i == 17 ? kIgnoredTarget : static_cast<int32_t>(i * 1601);
  double expected = 0;
  std::vector<double> dx(static_cast<size_t>(n * width), 0), dw(static_cast<size_t>(vocabulary * width), 0);
  for (int64_t i = 0; i < n; ++i) {
    if (i == 17) continue;
    std::vector<double> e(static_cast<size_t>(vocabulary));
    double sum = 0;
    for (int64_t v = 0; v < vocabulary; ++v) {
      double logit = 0;
      for (int64_t d = 0; d < width; ++d)
        logit += static_cast<double>(x.f32()[i * width + d]) * static_cast<double>(weight.f32()[v * width + d]);
      sum += e[static_cast<size_t>(v)] = std::exp(logit);
    }
    const int64_t target = targets.i32()[i];
    expected -= std::log(e[static_cast<size_t>(target)] / sum);
    for (int64_t v = 0; v < vocabulary; ++v) {
      const double g = e[static_cast<size_t>(v)] / sum - (v == target ? 1 : 0);
      for (int64_t d = 0; d < width; ++d) {
        dx[static_cast<size_t>(i * width + d)] += g * static_cast<double>(weight.f32()[v * width + d]);
        dw[static_cast<size_t>(v * width + d)] += g * static_cast<double>(x.f32()[i * width + d]);
      }
    }
  }
  Tape tape(cpu::kernels());
  const Variable vx = tape.leaf(x), vw = tape.leaf(weight);
  EXPECT_NEAR(cross_entropy_head(tape, vx, vw, targets, {}, 1).cross_entropy, expected, 1e-5 * expected);
  const auto error = [](const Tensor& found, const std::vector<double>& wanted) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      difference += std::pow(static_cast<double>(found.f32()[i]) - wanted[i], 2);
      size += wanted[i] * wanted[i];
    }
    return std::sqrt(difference / size);
  };
  EXPECT_LE(error(take_gradient(vx.slot), dx), 1e-5);
  EXPECT_LE(error(take_gradient(vw.slot), dw), 1e-5);
}

}  // namespace
}  // namespace heddle
