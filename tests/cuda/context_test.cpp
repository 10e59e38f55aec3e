// The context, its streams, and what is said where there is no such device.
#include "cuda/context.h"

#include "cuda/on_device.h"
#include "cuda/simple_kernels.h"
#include "support/error.h"

namespace heddle::cuda {

using ContextOnDevice = OnDevice;

TEST(Context, IsNotThereBeforeItIsCreated) {
  EXPECT_FALSE(has_context());
  EXPECT_THROW(context(), std::logic_error);
}

TEST_F(ContextOnDevice, IsOnlyOne) {
  EXPECT_THROW(create_context({}), Error);
  EXPECT_EQ(context().device(), 0);
  EXPECT_GT(context().properties().memory_bytes, 0);
  EXPECT_GE(context().properties().shared_bytes_per_block, 48 << 10);
}

TEST_F(ContextOnDevice, RefusesADeviceThatIsNotThere) {
  destroy_context();
  try {
    create_context({.device = 1000});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("there is no GPU 1000: this process sees"), std::string::npos)
        << error.what();
  }
  EXPECT_FALSE(has_context());
}

TEST_F(ContextOnDevice, CanBeCreatedAgain) {
  destroy_context();
  create_context({.math = MathMode::kPedantic});
  DeviceArray<float> array(std::vector<float>{1, 2});
  scale_on_device(array.data(), 2, 2.0f, context().compute_stream());
  EXPECT_EQ(array.values(), (std::vector<float>{2, 4}));
}

TEST_F(ContextOnDevice, StreamsWaitForEachOther) {
  Context& gpu = context();
  DeviceArray<float> array(std::vector<float>(1000, 1.0f));
  for (int i = 0; i < 5; ++i) {
    scale_on_device(array.data(), 1000, 2.0f, gpu.compute_stream());
    gpu.communication_waits_for_compute();
    scale_on_device(array.data(), 1000, 3.0f, gpu.communication_stream());
    gpu.compute_waits_for_communication();
  }
  EXPECT_EQ(array.values(), std::vector<float>(1000, 7776.0f));
}

}  // namespace heddle::cuda
