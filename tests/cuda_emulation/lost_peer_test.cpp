// A rank that ends while others wait for it: they learn of it as an asynchronous error, abort, and their streams go on.
#include <gtest/gtest.h>
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/library_error.h"
#include "cuda/on_device.h"

namespace heddle::cuda {

namespace {

/// Two ranks; the other one is a child process that does `other` once it has joined.
template <typename Other>
void expect_lost_peer(const Other& other) {
  ncclUniqueId id;
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  const pid_t child = fork();
  const int rank = child == 0 ? 1 : 0;
  create_context({.device = rank, .cublas_workspace_bytes = 1 << 20});
  ncclComm_t communicator = nullptr;
  check(ncclCommInitRank(&communicator, 2, id, rank), "ncclCommInitRank");
  if (child == 0) {
    other(communicator);
    _exit(0);
  }
  {
    DeviceArray<float> array(std::vector<float>(64, 1.0f));
    check(ncclAllReduce(array.data(), array.data(), 64, ncclFloat32, ncclSum, communicator, context().compute_stream()),
          "ncclAllReduce");
    ncclResult_t error = ncclSuccess;
    while (error == ncclSuccess) check(ncclCommGetAsyncError(communicator, &error), "ncclCommGetAsyncError");
    EXPECT_EQ(error, ncclRemoteError);
    EXPECT_EQ(cudaStreamQuery(context().compute_stream()), cudaErrorNotReady);
    EXPECT_EQ(
        ncclAllReduce(array.data(), array.data(), 64, ncclFloat32, ncclSum, communicator, context().compute_stream()),
        ncclRemoteError);
    check(ncclCommAbort(communicator), "ncclCommAbort");
    fill_bytes(array.data(), 0, 64 * sizeof(float));
    EXPECT_EQ(array.values(), std::vector<float>(64));
  }
  destroy_context();
  waitpid(child, nullptr, 0);
}

}  // namespace

TEST(EmulatedLostPeer, ThatWasKilled) {
  expect_lost_peer([](ncclComm_t) { kill(getpid(), SIGKILL); });
}

TEST(EmulatedLostPeer, ThatExits) {
  expect_lost_peer([](ncclComm_t) {});
}

TEST(EmulatedLostPeer, ThatAborts) {
  expect_lost_peer([](ncclComm_t communicator) {
    check(ncclCommAbort(communicator), "ncclCommAbort");
    sleep(2);
  });
}

}  // namespace heddle::cuda
