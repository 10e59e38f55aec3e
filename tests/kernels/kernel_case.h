// What the kernel tests share. A KernelCase is one call on seeded inputs; test_agreement.cpp holds every case of every
// device against the reference, against itself and against another thread count. A new device joins in devices().
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/shared_memory.h"

namespace heddle::test {

/// Every table under test, the reference first. The GPU's waits after every call, so that answers can be read.
std::vector<const Kernels*> devices();
/// Tables that store activations in bfloat16.
std::vector<const Kernels*> narrow_devices();

/// Standard normal values times `scale`, a function of (count, stream).
Array<float> normal(int64_t count, uint32_t stream, double scale = 1);
/// Memory that holds only NaN: what is read before it is written shows.
Array<float> blank(int64_t count);
/// Where a gradient goes: old values for accumulation, NaN otherwise.
Array<float> destination(int64_t count, bool accumulate, uint32_t stream);

struct Result {
  std::string what;
  std::vector<double> values;
};

template <typename T>
Result result(std::string what, const Array<T>& values) {
  return {std::move(what), std::vector<double>(values.begin(), values.end())};
}

struct KernelCase {
  std::string name;
  std::function<std::vector<Result>(const Kernels&)> run;
  double tolerance = 2e-6;               ///< relative L2 error against the reference
  bool same_at_any_thread_count = true;  ///< false for products, whose bits depend on the thread count
  double cancelled = 0;  ///< size of an element's terms where they may cancel: the error counts against it at least
};

inline std::ostream& operator<<(std::ostream& out, const KernelCase& c) {
  return out << c.name;
}

/// Fixture of test_agreement.cpp; each family instantiates it with its own cases.
class KernelAgreement : public ::testing::TestWithParam<KernelCase> {};

/// Fixture of tests that hold for every device.
class EachDevice : public ::testing::TestWithParam<const Kernels*> {};

std::string case_name(const ::testing::TestParamInfo<KernelCase>& info);
std::string device_name(const ::testing::TestParamInfo<const Kernels*>& info);

/// ||actual - expected|| / ||expected||; infinity for NaN, or for a non-zero answer where zero is expected.
/// The divisor is at least that of elements of size `cancelled`.
double relative_error(const std::vector<double>& actual, const std::vector<double>& expected, double cancelled);

void expect_near(const Array<float>& actual, const std::vector<double>& expected, double tolerance);

/// Sum of weights * values in double: turns an output into a loss whose gradient is `weights`.
double weighted_sum(const Array<float>& weights, const Array<float>& values);

/// Compares `gradient` with central differences of `loss` in random directions of `input` (fourth order, step 0.01).
/// `loss` must read `input` anew each time. The error is relative to the gradient's norm.
void expect_gradient(const std::string& what, Array<float>& input, const Array<float>& gradient,
                     const std::function<double()>& loss, double tolerance = 1e-3);

}  // namespace heddle::test

/// Runs test_agreement.cpp over the cases that `cases()` returns.
#define HEDDLE_KERNEL_CASES(family, cases) \
  INSTANTIATE_TEST_SUITE_P(family, KernelAgreement, ::testing::ValuesIn(cases), case_name)

/// Runs the EachDevice tests of one file, through a fixture of its own, over all devices.
#define HEDDLE_EACH_DEVICE(fixture)     \
  class fixture : public EachDevice {}; \
  INSTANTIATE_TEST_SUITE_P(Device, fixture, ::testing::ValuesIn(devices()), device_name)
