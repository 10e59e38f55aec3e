// Memory and copies, and kernels between them.
#include "cuda/memory.h"

#include <numeric>

#include "cuda/on_device.h"
#include "cuda/simple_kernels.h"

namespace heddle::cuda {

using Memory = OnDevice;

TEST_F(Memory, AKernelSeesWhatWasCopiedBefore) {
  std::vector<float> values(1000);
  std::iota(values.begin(), values.end(), 0.0f);
  DeviceArray<float> array(values);
  scale_on_device(array.data(), 1000, 3.0f, context().compute_stream());
  const std::vector<float> scaled = array.values();
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(scaled[i], 3.0f * values[i]);
}

TEST_F(Memory, BlocksReduceTheirRows) {
  constexpr int64_t kRows = 7, kColumns = 300;
  std::vector<float> values(kRows * kColumns);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 5);
  DeviceArray<float> array(values), sums(kRows);
  sum_rows_on_device(array.data(), sums.data(), kRows, kColumns, context().compute_stream());
  EXPECT_EQ(sums.values(), std::vector<float>(kRows, 2.0f * kColumns));
}

TEST_F(Memory, PinnedMemoryIsCopiedInStreamOrder) {
  auto* pinned = static_cast<float*>(pinned_malloc(4 * sizeof(float)));
  DeviceArray<float> array(std::vector<float>{1, 2, 3, 4});
  scale_on_device(array.data(), 4, 2.0f, context().compute_stream());
  copy_to_host(pinned, array.data(), 4 * sizeof(float));
  fill_bytes(array.data(), 0, 4 * sizeof(float));
  context().synchronize_compute();
  EXPECT_EQ(std::vector<float>(pinned, pinned + 4), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(array.values(), std::vector<float>(4, 0.0f));
  pinned_free(pinned);
}

TEST_F(Memory, CopiesOnTheDevice) {
  DeviceArray<float> from(std::vector<float>{1, 2, 3}), to(3);
  copy_on_device(to.data(), from.data(), 3 * sizeof(float));
  EXPECT_EQ(to.values(), (std::vector<float>{1, 2, 3}));
}

TEST_F(Memory, NothingOfZeroBytesIsAllocatedOrCopied) {
  EXPECT_EQ(device_malloc(0), nullptr);
  EXPECT_EQ(pinned_malloc(0), nullptr);
  device_free(nullptr);
  pinned_free(nullptr);
  copy_to_device(nullptr, nullptr, 0);
  copy_to_host(nullptr, nullptr, 0);
  fill_bytes(nullptr, 0, 0);
}

TEST_F(Memory, TooMuchIsRefusedWithWhatIsFree) {
  try {
    device_malloc(size_t{1} << 50);
    FAIL();
  } catch (const OutOfDeviceMemory& error) {
    EXPECT_NE(std::string(error.what()).find("GPU 0 has no room for 1073741824.0 MiB"), std::string::npos)
        << error.what();
  }
  DeviceArray<float> still_works(std::vector<float>{1});
  EXPECT_EQ(still_works.values(), std::vector<float>{1});
}

}  // namespace heddle::cuda
