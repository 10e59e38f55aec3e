// Several threads of the host use the device, each with a stream and memory of its own.
#include <thread>

#include "cuda/error.h"
#include "cuda/on_device.h"
#include "cuda/simple_kernels.h"

namespace heddle::cuda {

namespace {

using HostThreads = OnDevice;

void use_device(int number, float* result) {
  constexpr int kCount = 500, kRounds = 20;
  check(cudaSetDevice(0), "cudaSetDevice");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  auto* const pinned = static_cast<float*>(pinned_malloc(kCount * sizeof(float)));
  auto* const values = static_cast<float*>(device_malloc(kCount * sizeof(float)));
  for (int i = 0; i < kCount; ++i) pinned[i] = static_cast<float>(number);
  for (int round = 0; round < kRounds; ++round) {
    check(cudaMemcpyAsync(values, pinned, kCount * sizeof(float), cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
    scale_on_device(values, kCount, 2.0f, stream);
    check(cudaMemcpyAsync(pinned, values, kCount * sizeof(float), cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  *result = pinned[kCount - 1];
  device_free(values);
  pinned_free(pinned);
  check(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

}  // namespace

TEST_F(HostThreads, DoNotDisturbEachOther) {
  float results[3] = {};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(use_device, i + 1, &results[i]);
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(results[i], static_cast<float>(i + 1) * 1048576.0f);
}

}  // namespace heddle::cuda
