// Streams and events of the emulation: what waits for what, and what is answered while work is under way.
#include <cuda_runtime.h>

#include "cuda/error.h"
#include "cuda/on_device.h"
#include "cuda/simple_kernels.h"

namespace heddle::cuda {

namespace {

class EmulatedStreams : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  }
  void TearDown() override {
    check(cudaEventDestroy(event_), "cudaEventDestroy");
    OnDevice::TearDown();
  }

  cudaEvent_t event_ = nullptr;
};

}  // namespace

TEST_F(EmulatedStreams, AnEventStandsForItsLastRecord) {
  EXPECT_EQ(cudaEventQuery(event_), cudaSuccess);  // never recorded: nothing to wait for
  check(cudaEventSynchronize(event_), "cudaEventSynchronize");
  DeviceArray<float> array(std::vector<float>(100, 1.0f));
  for (int i = 0; i < 3; ++i) {
    scale_on_device(array.data(), 100, 2.0f, context().compute_stream());
    check(cudaEventRecord(event_, context().compute_stream()), "cudaEventRecord");
  }
  check(cudaEventSynchronize(event_), "cudaEventSynchronize");
  EXPECT_EQ(cudaStreamQuery(context().compute_stream()), cudaSuccess);
  EXPECT_EQ(array.values(), std::vector<float>(100, 8.0f));
}

TEST_F(EmulatedStreams, QueriesEndWhenTheWorkIsDone) {
  DeviceArray<float> array(std::vector<float>(100, 1.0f));
  context().communication_waits_for_compute();
  scale_on_device(array.data(), 100, 2.0f, context().communication_stream());
  check(cudaEventRecord(event_, context().communication_stream()), "cudaEventRecord");
  cudaError_t status = cudaErrorNotReady;
  while ((status = cudaEventQuery(event_)) == cudaErrorNotReady) {
  }
  EXPECT_EQ(status, cudaSuccess);
  context().compute_waits_for_communication();
  EXPECT_EQ(array.values(), std::vector<float>(100, 2.0f));
}

TEST_F(EmulatedStreams, AnEventWithoutTimesHasNone) {
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  check(cudaEventRecord(begin, context().compute_stream()), "cudaEventRecord");
  check(cudaEventRecord(end, context().compute_stream()), "cudaEventRecord");
  check(cudaEventSynchronize(end), "cudaEventSynchronize");
  float milliseconds = -1.0f;
  check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
  EXPECT_GE(milliseconds, 0.0f);
  check(cudaEventRecord(event_, context().compute_stream()), "cudaEventRecord");
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, event_), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  check(cudaEventDestroy(begin), "cudaEventDestroy");
  check(cudaEventDestroy(end), "cudaEventDestroy");
}

TEST_F(EmulatedStreams, ADestroyedStreamIsUnknown) {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorInvalidResourceHandle);
}

TEST_F(EmulatedStreams, WorkOfADestroyedStreamIsDone) {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  DeviceArray<float> array(std::vector<float>(100, 1.0f));
  context().synchronize_compute();
  scale_on_device(array.data(), 100, 2.0f, stream);
  check(cudaEventRecord(event_, stream), "cudaEventRecord");
  check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  check(cudaStreamWaitEvent(context().compute_stream(), event_, 0), "cudaStreamWaitEvent");
  EXPECT_EQ(array.values(), std::vector<float>(100, 2.0f));
}

TEST_F(EmulatedStreams, MemoryIsCountedAndReturned) {
  size_t free_before = 0, free_now = 0, total = 0;
  check(cudaMemGetInfo(&free_before, &total), "cudaMemGetInfo");
  {
    DeviceArray<float> array(1 << 20);
    check(cudaMemGetInfo(&free_now, &total), "cudaMemGetInfo");
    EXPECT_EQ(free_now, free_before - (4 << 20));
    EXPECT_EQ(static_cast<int64_t>(total), context().properties().memory_bytes);
  }
  check(cudaMemGetInfo(&free_now, &total), "cudaMemGetInfo");
  EXPECT_EQ(free_now, free_before);
}

}  // namespace heddle::cuda
