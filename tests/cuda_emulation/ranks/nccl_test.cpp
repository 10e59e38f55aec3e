// The emulated NCCL on several ranks: every call, groups, streams, and the host's own exchanges in between.
#include <cuda_bf16.h>
#include <nccl.h>

#include <numeric>

#include "cuda/library_error.h"
#include "cuda/on_device.h"
#include "tests/distributed/world.h"

namespace heddle::cuda {

namespace {

/// A context on the GPU of this rank, and a communicator of all ranks.
class EmulatedNccl : public testing::Test {
 protected:
  void SetUp() override {
    create_context({.device = rank(), .cublas_workspace_bytes = 1 << 20});
    communicator_ = join();
  }
  void TearDown() override {
    check(ncclCommDestroy(communicator_), "ncclCommDestroy");
    destroy_context();
  }

  static int rank() { return test_world().rank(); }
  static int size() { return test_world().size(); }
  static cudaStream_t stream() { return context().compute_stream(); }

  static ncclComm_t join() {
    ncclUniqueId id;
    if (rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    test_world().broadcast(&id, sizeof(id), 0);
    ncclComm_t created = nullptr;
    check(ncclCommInitRank(&created, size(), id, rank()), "ncclCommInitRank");
    return created;
  }

  /// begin, begin + 1, ...
  static std::vector<float> ramp(size_t count, float begin) {
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), begin);
    return values;
  }

  ncclComm_t communicator_ = nullptr;
};

constexpr size_t kCount = 1000;

}  // namespace

TEST_F(EmulatedNccl, KnowsItsRanks) {
  int found = -1;
  check(ncclCommCount(communicator_, &found), "ncclCommCount");
  EXPECT_EQ(found, size());
  check(ncclCommUserRank(communicator_, &found), "ncclCommUserRank");
  EXPECT_EQ(found, rank());
}

TEST_F(EmulatedNccl, AllReduceInPlaceAndNot) {
  const float ranks = static_cast<float>(size()), sum_of_ranks = ranks * (ranks - 1) / 2;
  DeviceArray<float> sent(ramp(kCount, static_cast<float>(rank()))), received(kCount);
  check(ncclAllReduce(sent.data(), received.data(), kCount, ncclFloat32, ncclSum, communicator_, stream()),
        "AllReduce");
  check(ncclAllReduce(sent.data(), sent.data(), kCount, ncclFloat32, ncclMax, communicator_, stream()), "AllReduce");
  const std::vector<float> sums = received.values(), maxima = sent.values();
  for (size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(sums[i], ranks * static_cast<float>(i) + sum_of_ranks);
    EXPECT_EQ(maxima[i], static_cast<float>(i) + ranks - 1);
  }
}

TEST_F(EmulatedNccl, AveragesAndSmallTypes) {
  DeviceArray<__nv_bfloat16> halves(std::vector<__nv_bfloat16>(kCount, __float2bfloat16(static_cast<float>(rank()))));
  DeviceArray<int64_t> integers(std::vector<int64_t>(kCount, int64_t{1} << 40));
  check(ncclAllReduce(halves.data(), halves.data(), kCount, ncclBfloat16, ncclAvg, communicator_, stream()),
        "AllReduce");
  check(ncclAllReduce(integers.data(), integers.data(), kCount, ncclInt64, ncclSum, communicator_, stream()),
        "AllReduce");
  EXPECT_EQ(__bfloat162float(halves.values()[7]), static_cast<float>(size() - 1) / 2);
  EXPECT_EQ(integers.values(), std::vector<int64_t>(kCount, (int64_t{1} << 40) * size()));
}

TEST_F(EmulatedNccl, ReduceAndBroadcastHaveARoot) {
  const int root = size() - 1;
  DeviceArray<float> data(std::vector<float>(kCount, 1.0f)), result(std::vector<float>(kCount, 5.0f));
  check(ncclReduce(data.data(), result.data(), kCount, ncclFloat32, ncclSum, root, communicator_, stream()), "Reduce");
  EXPECT_EQ(result.values(), std::vector<float>(kCount, rank() == root ? static_cast<float>(size()) : 5.0f));
  check(ncclBroadcast(result.data(), result.data(), kCount, ncclFloat32, root, communicator_, stream()), "Broadcast");
  EXPECT_EQ(result.values(), std::vector<float>(kCount, static_cast<float>(size())));
}

TEST_F(EmulatedNccl, GathersAndScatters) {
  const auto ranks = static_cast<size_t>(size());
  DeviceArray<float> own(std::vector<float>(kCount, static_cast<float>(rank()))), all(kCount * ranks), share(kCount);
  check(ncclAllGather(own.data(), all.data(), kCount, ncclFloat32, communicator_, stream()), "AllGather");
  const std::vector<float> gathered = all.values();
  for (size_t i = 0; i < gathered.size(); ++i) EXPECT_EQ(gathered[i], static_cast<float>(i / kCount));
  check(ncclReduceScatter(all.data(), share.data(), kCount, ncclFloat32, ncclSum, communicator_, stream()),
        "ReduceScatter");
  EXPECT_EQ(share.values(), std::vector<float>(kCount, static_cast<float>(rank() * size())));
}

TEST_F(EmulatedNccl, AllToAllEqualsPairsOfMessages) {
  const auto ranks = static_cast<size_t>(size());
  DeviceArray<float> sent(ramp(kCount * ranks, 10000.0f * static_cast<float>(rank())));
  DeviceArray<float> by_messages(kCount * ranks), by_collective(kCount * ranks);
  check(ncclGroupStart(), "ncclGroupStart");
  for (int peer = 0; peer < size(); ++peer) {
    const size_t offset = static_cast<size_t>(peer) * kCount;
    check(ncclSend(sent.data() + offset, kCount, ncclFloat32, peer, communicator_, stream()), "Send");
    check(ncclRecv(by_messages.data() + offset, kCount, ncclFloat32, peer, communicator_, stream()), "Recv");
  }
  check(ncclGroupEnd(), "ncclGroupEnd");
  check(ncclAlltoAll(sent.data(), by_collective.data(), kCount, ncclFloat32, communicator_, stream()), "AlltoAll");
  const std::vector<float> values = by_messages.values();
  EXPECT_EQ(values, by_collective.values());
  for (size_t peer = 0; peer < ranks; ++peer)
    EXPECT_EQ(values[peer * kCount + 3],
              10000.0f * static_cast<float>(peer) + static_cast<float>(rank()) * static_cast<float>(kCount) + 3.0f);
}

TEST_F(EmulatedNccl, MessagesOfAnySizesAndManyToOnePeer) {
  // Rank r sends r + 1 elements, 20 times, to its right neighbour; zero elements go to all.
  const int right = (rank() + 1) % size(), left = (rank() + size() - 1) % size();
  const auto count = static_cast<size_t>(rank() + 1), count_of_left = static_cast<size_t>(left + 1);
  DeviceArray<float> sent(ramp(20 * count, static_cast<float>(rank()))), received(20 * count_of_left);
  check(ncclGroupStart(), "ncclGroupStart");
  for (size_t i = 0; i < 20; ++i) {
    check(ncclSend(sent.data() + i * count, count, ncclFloat32, right, communicator_, stream()), "Send");
    check(ncclRecv(received.data() + i * count_of_left, count_of_left, ncclFloat32, left, communicator_, stream()),
          "Recv");
  }
  for (int peer = 0; peer < size(); ++peer) {
    check(ncclSend(nullptr, 0, ncclFloat32, peer, communicator_, stream()), "Send");
    check(ncclRecv(nullptr, 0, ncclFloat32, peer, communicator_, stream()), "Recv");
  }
  check(ncclGroupEnd(), "ncclGroupEnd");
  EXPECT_EQ(received.values(), ramp(20 * count_of_left, static_cast<float>(left)));
}

TEST_F(EmulatedNccl, ZeroElementsAreExchanged) {
  check(ncclAllReduce(nullptr, nullptr, 0, ncclFloat32, ncclSum, communicator_, stream()), "AllReduce");
  check(ncclAllGather(nullptr, nullptr, 0, ncclFloat32, communicator_, stream()), "AllGather");
  context().synchronize_compute();
}

TEST_F(EmulatedNccl, AGroupHoldsSeveralCollectives) {
  std::vector<std::unique_ptr<DeviceArray<float>>> arrays;
  for (int i = 0; i < 10; ++i)
    arrays.push_back(std::make_unique<DeviceArray<float>>(std::vector<float>(kCount, static_cast<float>(i))));
  check(ncclGroupStart(), "ncclGroupStart");
  for (const auto& array : arrays)
    check(ncclAllReduce(array->data(), array->data(), kCount, ncclFloat32, ncclSum, communicator_, stream()),
          "AllReduce");
  check(ncclGroupEnd(), "ncclGroupEnd");
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(arrays[static_cast<size_t>(i)]->values(), std::vector<float>(kCount, static_cast<float>(i * size())));
}

TEST_F(EmulatedNccl, StreamsAndCommunicatorsMeetByEvents) {
  Context& gpu = context();
  const ncclComm_t second = join();
  DeviceArray<float> array(std::vector<float>(kCount, 1.0f));
  float expected = 1.0f;
  for (int i = 0; i < 4; ++i, expected *= static_cast<float>(size() * size())) {
    check(ncclAllReduce(array.data(), array.data(), kCount, ncclFloat32, ncclSum, communicator_, gpu.compute_stream()),
          "AllReduce");
    gpu.communication_waits_for_compute();
    check(ncclAllReduce(array.data(), array.data(), kCount, ncclFloat32, ncclSum, second, gpu.communication_stream()),
          "AllReduce");
    gpu.compute_waits_for_communication();
  }
  EXPECT_EQ(array.values(), std::vector<float>(kCount, expected));
  check(ncclCommDestroy(second), "ncclCommDestroy");
}

TEST_F(EmulatedNccl, TheDeviceWorksWhileTheHostWaitsInMpi) {
  // Rank 0 waits for the others on the host before it waits for its device; the others the other way round.
  DeviceArray<float> array(std::vector<float>(kCount, 1.0f));
  for (int i = 0; i < 3; ++i)
    check(ncclAllReduce(array.data(), array.data(), kCount, ncclFloat32, ncclSum, communicator_, stream()),
          "AllReduce");
  if (rank() != 0) context().synchronize_compute();
  test_world().barrier();
  EXPECT_EQ(array.values(), std::vector<float>(kCount, static_cast<float>(size() * size() * size())));
}

TEST_F(EmulatedNccl, OneGpuForTwoRanksIsRefused) {
  if (size() == 1) return;
  destroy_context();
  create_context({.device = 0, .cublas_workspace_bytes = 1 << 20});
  ncclUniqueId id;
  if (rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  test_world().broadcast(&id, sizeof(id), 0);
  ncclComm_t refused = nullptr;
  EXPECT_EQ(ncclCommInitRank(&refused, size(), id, rank()), ncclInvalidUsage);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("Duplicate GPU detected"), std::string::npos);
  EXPECT_EQ(refused, nullptr);
}

TEST_F(EmulatedNccl, WrongArgumentsAreRefused) {
  DeviceArray<float> array(std::vector<float>(4, 1.0f));
  EXPECT_EQ(ncclSend(array.data(), 4, ncclFloat32, size(), communicator_, stream()), ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(array.data(), array.data(), 4, ncclFloat32, ncclSum, nullptr, stream()), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
}

}  // namespace heddle::cuda
