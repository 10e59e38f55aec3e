// Inputs, comparisons and gradient checks of the kernel tests.
#include "kernels/kernel_case.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/narrow_reals.h"
#include "support/random.h"
#ifdef HEDDLE_WITH_CUDA
#include "cuda/context.h"
#endif

namespace heddle::test {

#ifdef HEDDLE_WITH_CUDA
namespace {

/// Before the first array is made: arrays lie where the GPU can reach them.
bool there_is_a_gpu() {
  if (!cuda::has_context() && cuda::visible_devices().count > 0)
    cuda::create_context({.device = 0, .math = cuda::MathMode::kPedantic});
  return cuda::has_context();
}

}  // namespace
#endif

std::vector<const Kernels*> devices() {
  std::vector<const Kernels*> all = {&ref::kernels(), &cpu::kernels()};
#ifdef HEDDLE_WITH_CUDA
  if (there_is_a_gpu()) all.push_back(&cuda::waiting_kernels());
#endif
  return all;
}

std::vector<const Kernels*> narrow_devices() {
#ifdef HEDDLE_WITH_CUDA
  if (there_is_a_gpu()) return {&narrow_cuda()};
#endif
  return {};
}

Array<float> normal(int64_t count, uint32_t stream, double scale) {
  Array<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(scale * random_normal(1, Draw::kTest, stream, i));
  return values;
}

Array<float> blank(int64_t count) {
  return Array<float>(static_cast<size_t>(count), std::numeric_limits<float>::quiet_NaN());
}

Array<float> destination(int64_t count, bool accumulate, uint32_t stream) {
  return accumulate ? normal(count, stream) : blank(count);
}

std::string case_name(const ::testing::TestParamInfo<KernelCase>& info) {
  return info.param.name;
}
std::string device_name(const ::testing::TestParamInfo<const Kernels*>& info) {
  return info.param->name;
}

double relative_error(const std::vector<double>& actual, const std::vector<double>& expected, double cancelled) {
  if (actual.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double difference = 0, norm = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  if (difference == 0) return 0;
  const double smallest = cancelled * cancelled * static_cast<double>(expected.size());
  const double error = std::sqrt(difference / std::max(norm, smallest));
  return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
}

void expect_near(const Array<float>& actual, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(static_cast<double>(actual[i]), expected[i], tolerance) << "element " << i;
}

double weighted_sum(const Array<float>& weights, const Array<float>& values) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += static_cast<double>(weights[i]) * static_cast<double>(values[i]);
  return sum;
}

void expect_gradient(const std::string& what, Array<float>& input, const Array<float>& gradient,
                     const std::function<double()>& loss, double tolerance) {
  ASSERT_EQ(input.size(), gradient.size());
  const Array<float> original = input;
  const double norm = std::sqrt(weighted_sum(gradient, gradient));
  constexpr double kStep = 0.01;
  for (uint32_t trial = 0; trial < 3; ++trial) {
    const Array<float> direction = normal(static_cast<int64_t>(input.size()), 900 + trial);
    const auto loss_at = [&](double step) {
      for (size_t i = 0; i < input.size(); ++i)
        input[i] = static_cast<float>(static_cast<double>(original[i]) + step * static_cast<double>(direction[i]));
      return loss();
    };
    const double near = loss_at(kStep) - loss_at(-kStep), far = loss_at(2 * kStep) - loss_at(-2 * kStep);
    const double measured = (8 * near - far) / (12 * kStep), claimed = weighted_sum(gradient, direction);
    EXPECT_LE(std::abs(measured - claimed), tolerance * norm)
        << what << ", direction " << trial << ": differences give " << measured << ", the kernel " << claimed;
  }
  input = original;
}

}  // namespace heddle::test
