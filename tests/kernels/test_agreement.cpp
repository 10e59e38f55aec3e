// What every kernel owes: the reference's answer, the same bits twice, and on a CPU the same bits at two threads.
#include <omp.h>

#include <algorithm>
#include <cstring>

#include "kernels/kernel_case.h"
#include "kernels/narrow_reals.h"

namespace heddle::test {
namespace {

std::vector<Result> run_with_threads(const KernelCase& c, const Kernels& kernels, int threads) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  std::vector<Result> results = c.run(kernels);
  omp_set_num_threads(before);
  return results;
}

void expect_same_bits(const std::vector<Result>& a, const std::vector<Result>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].values.size(), b[i].values.size());
    if (a[i].values.empty()) continue;
    EXPECT_EQ(std::memcmp(a[i].values.data(), b[i].values.data(), a[i].values.size() * sizeof(double)), 0) << a[i].what;
  }
}

void expect_close(const KernelCase& c, const std::vector<Result>& actual, const std::vector<Result>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_LE(relative_error(actual[i].values, expected[i].values, c.cancelled), c.tolerance) << actual[i].what;
}

}  // namespace

TEST_P(KernelAgreement, MatchesReference) {
  const std::vector<Result> expected = GetParam().run(ref::kernels());
  for (const Kernels* device : devices()) {
    SCOPED_TRACE(device->name);
    expect_close(GetParam(), GetParam().run(*device), expected);
  }
}

#ifdef HEDDLE_WITH_CUDA
TEST_P(KernelAgreement, MatchesReferenceInBfloat16) {
  const std::vector<Result> expected = GetParam().run(rounded_reference());
  KernelCase c = GetParam();
  c.tolerance = std::max(c.tolerance, 2e-2);
  for (const Kernels* device : narrow_devices()) expect_close(c, c.run(*device), expected);
}
#endif

TEST_P(KernelAgreement, RepeatsItsBits) {
  for (const Kernels* device : devices()) {
    SCOPED_TRACE(device->name);
    expect_same_bits(GetParam().run(*device), GetParam().run(*device));
  }
}

TEST_P(KernelAgreement, ThreadCountDoesNotShow) {
  for (const Kernels* device : {&ref::kernels(), &cpu::kernels()}) {
    SCOPED_TRACE(device->name);
    const std::vector<Result> one = run_with_threads(GetParam(), *device, 1);
    const std::vector<Result> two = run_with_threads(GetParam(), *device, 2);
    if (GetParam().same_at_any_thread_count) {
      expect_same_bits(two, one);
    } else {
      expect_close(GetParam(), two, one);
    }
  }
}

}  // namespace heddle::test
