// Context, memory and copies, and a kernel between them.
#include "cuda/memory.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "cuda/context.h"
#include "cuda/simple_kernels.h"

namespace heddle::cuda {

namespace {

class OnDevice : public testing::Test {
 protected:
  void SetUp() override {
    const VisibleDevices visible = visible_devices();
    if (visible.count == 0) GTEST_SKIP() << visible.why_none;
    create_context({});
  }
  void TearDown() override {
    if (has_context()) destroy_context();
  }
};

using Memory = OnDevice;

}  // namespace

TEST_F(Memory, AKernelSeesWhatWasCopiedBefore) {
  std::vector<float> values(1000);
  std::iota(values.begin(), values.end(), 0.0f);
  const size_t bytes = values.size() * sizeof(float);
  auto* on_device = static_cast<float*>(device_malloc(bytes));
  copy_to_device(on_device, values.data(), bytes);
  scale_on_device(on_device, 1000, 3.0f, context().compute_stream());
  std::vector<float> scaled(1000);
  copy_to_host(scaled.data(), on_device, bytes);
  context().synchronize_compute();
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(scaled[i], 3.0f * values[i]);
  device_free(on_device);
}

TEST_F(Memory, BlocksReduceTheirRows) {
  constexpr int64_t kRows = 7, kColumns = 300;
  std::vector<float> values(kRows * kColumns);
  for (int64_t i = 0; i < kRows * kColumns; ++i) values[static_cast<size_t>(i)] = static_cast<float>(i % 5);
  auto* on_device = static_cast<float*>(device_malloc(values.size() * sizeof(float)));
  auto* sums = static_cast<float*>(device_malloc(kRows * sizeof(float)));
  auto* sums_on_host = static_cast<float*>(pinned_malloc(kRows * sizeof(float)));
  copy_to_device(on_device, values.data(), values.size() * sizeof(float));
  sum_rows_on_device(on_device, sums, kRows, kColumns, context().compute_stream());
  copy_to_host(sums_on_host, sums, kRows * sizeof(float));
  context().synchronize_compute();
  for (int64_t row = 0; row < kRows; ++row) EXPECT_EQ(sums_on_host[row], 2.0f * kColumns);
  device_free(on_device);
  device_free(sums);
  pinned_free(sums_on_host);
}

}  // namespace heddle::cuda
