// Machines that the emulation can be: without a driver, without a visible GPU, small, with one GPU. Each test runs in a
// process of its own, since the machine is what the environment says at the first call.
#include <cublas_v2.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstdlib>
#include <functional>

#include "cuda/context.h"
#include "cuda/error.h"
#include "cuda/memory.h"

namespace heddle::cuda {

namespace {

class EmulatedMachine : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

/// Ends the process with 0, or with the message of what was thrown.
[[noreturn]] void end_after(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    _exit(1);
  }
  _exit(testing::Test::HasFailure() ? 2 : 0);
}

}  // namespace

TEST_F(EmulatedMachine, WithoutADriver) {
  EXPECT_EXIT(
      {
        setenv("CUDA_EMULATION_DRIVER", "none", 1);
        end_after([] {
          int count = 77;
          EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
          EXPECT_EQ(count, 77);
          void* memory = nullptr;
          EXPECT_EQ(cudaMalloc(&memory, 4), cudaErrorInsufficientDriver);
          cublasHandle_t handle = nullptr;
          EXPECT_EQ(cublasCreate(&handle), CUBLAS_STATUS_NOT_INITIALIZED);
          ncclUniqueId id;
          EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
          ncclComm_t communicator = nullptr;
          EXPECT_EQ(ncclCommInitRank(&communicator, 1, id, 0), ncclUnhandledCudaError);
          EXPECT_EQ(visible_devices().count, 0);
          EXPECT_EQ(cudaGetLastError(), cudaSuccess);
          create_context({});
        });
      },
      testing::ExitedWithCode(1),
      "there is no GPU to run on: CUDA driver version is insufficient for CUDA runtime version");
}

TEST_F(EmulatedMachine, WithoutAVisibleDevice) {
  EXPECT_EXIT(
      {
        setenv("CUDA_VISIBLE_DEVICES", "", 1);
        end_after([] { create_context({}); });
      },
      testing::ExitedWithCode(1), "there is no GPU to run on: no CUDA-capable device is detected");
}

TEST_F(EmulatedMachine, ShowsTheVisibleDevicesInTheirOrder) {
  EXPECT_EXIT(
      {
        setenv("CUDA_VISIBLE_DEVICES", "5,2,9,1", 1);  // the list ends at the one that is not there
        end_after([] {
          EXPECT_EQ(visible_devices().count, 2);
          create_context({.device = 1, .cublas_workspace_bytes = 1 << 20});
          EXPECT_EQ(context().properties().name, "emulated GPU 2");
          destroy_context();
          create_context({.device = 2});
        });
      },
      testing::ExitedWithCode(1), "there is no GPU 2: this process sees 2, numbered from 0");
}

TEST_F(EmulatedMachine, OfOneSmallDevice) {
  EXPECT_EXIT(
      {
        setenv("CUDA_EMULATION_DEVICES", "1", 1);
        setenv("CUDA_EMULATION_DEVICE_MB", "16", 1);
        end_after([] {
          EXPECT_EQ(visible_devices().count, 1);
          create_context({.cublas_workspace_bytes = 1 << 20});
          // Together more than the addresses that the emulation reserves.
          for (int i = 0; i < 20; ++i) device_free(device_malloc(7 << 20));
          device_free(device_malloc(15 << 20));
          device_malloc((15 << 20) + 1);
        });
      },
      testing::ExitedWithCode(1), "GPU 0 has no room for 15.0 MiB: 15.0 of 16.0 MiB are free");
}

TEST_F(EmulatedMachine, RefusesWhatItIsNot) {
  EXPECT_EXIT(
      {
        setenv("CUDA_EMULATION_DEVICES", "many", 1);
        end_after([] { visible_devices(); });
      },
      testing::ExitedWithCode(66), "CUDA_EMULATION_DEVICES is 'many': expected a number from 0 to 64");
}

}  // namespace heddle::cuda
