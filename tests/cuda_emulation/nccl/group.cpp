#include "nccl/group.h"

#include <nccl.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "nccl/exchange.h"
#include "nccl/status.h"
#include "runtime/entry.h"
#include "runtime/failure.h"
#include "runtime/stream.h"

namespace cuda_emulation {

namespace {

struct GroupedCall {
  ncclComm* communicator;
  cudaStream_t stream;
  NcclCall call;
};

thread_local int group_depth = 0;
thread_local std::vector<GroupedCall> group;

void enqueue_exchange(ncclComm* communicator, cudaStream_t stream, std::vector<NcclCall> calls) {
  const auto exchange = std::make_shared<Exchange>(communicator, stream->device, std::move(calls));
  const uint64_t number = communicator->operations_issued++;
  enqueue(stream, {"NCCL operation", [exchange] { exchange->start(); },
                   [communicator, number] { return communicator->operations_started == number; },
                   [exchange] { return exchange->is_done(); }});
}

/// One exchange for each communicator and stream, in the order of their first calls.
void enqueue_group() {
  std::vector<GroupedCall> calls = std::exchange(group, {});
  while (!calls.empty()) {
    const GroupedCall first = calls.front();
    std::vector<NcclCall> together;
    std::vector<GroupedCall> others;
    for (const GroupedCall& grouped : calls) {
      if (grouped.communicator == first.communicator && grouped.stream == first.stream)
        together.push_back(grouped.call);
      else
        others.push_back(grouped);
    }
    enqueue_exchange(first.communicator, first.stream, std::move(together));
    calls = std::move(others);
  }
}

ncclResult_t add_call(ncclComm* communicator, cudaStream_t stream, const NcclCall& call) {
  const Entry entry;
  if (const ncclResult_t result = check_usable(communicator)) return result;
  if (check_stream(stream, "an NCCL call") != cudaSuccess)
    return nccl_error(ncclInvalidArgument, "the stream does not exist");
  if (stream->device != communicator->device)
    return nccl_error(ncclInvalidUsage, "the stream is of device %d and the communicator of device %d", stream->device,
                      communicator->device);
  if (call.peer < 0 || call.peer >= communicator->size)
    return nccl_error(ncclInvalidArgument, "%s: there are ranks 0 to %d", describe(call).c_str(),
                      communicator->size - 1);
  if (bytes_of(call.type) == 0) fail("NCCL: the emulation does not have type %d", static_cast<int>(call.type));
  group.push_back({communicator, stream, call});
  if (group_depth == 0) enqueue_group();
  return ncclSuccess;
}

}  // namespace

bool inside_group() {
  return group_depth > 0;
}

}  // namespace cuda_emulation

using namespace cuda_emulation;

extern "C" {

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  const Entry entry;
  if (group_depth == 0) return nccl_error(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--group_depth == 0) enqueue_group();
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* sent, void* received, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t communicator, cudaStream_t stream) {
  return add_call(communicator, stream, {CallKind::kAllReduce, sent, received, count, type, operation, 0});
}

ncclResult_t ncclReduce(const void* sent, void* received, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                        int root, ncclComm_t communicator, cudaStream_t stream) {
  return add_call(communicator, stream, {CallKind::kReduce, sent, received, count, type, operation, root});
}

ncclResult_t ncclBroadcast(const void* sent, void* received, size_t count, ncclDataType_t type, int root,
                           ncclComm_t communicator, cudaStream_t stream) {
  return add_call(communicator, stream, {CallKind::kBroadcast, sent, received, count, type, ncclSum, root});
}

ncclResult_t ncclBcast(void* data, size_t count, ncclDataType_t type, int root, ncclComm_t communicator,
                       cudaStream_t stream) {
  return ncclBroadcast(data, data, count, type, root, communicator, stream);
}

ncclResult_t ncclAllGather(const void* sent, void* received, size_t count, ncclDataType_t type, ncclComm_t communicator,
                           cudaStream_t stream) {
  return add_call(communicator, stream, {CallKind::kAllGather, sent, received, count, type, ncclSum, 0});
}

ncclResult_t ncclReduceScatter(const void* sent, void* received, size_t count, ncclDataType_t type,
                               ncclRedOp_t operation, ncclComm_t communicator, cudaStream_t stream) {
  return add_call(communicator, stream, {CallKind::kReduceScatter, sent, received, count, type, operation, 0});
}

ncclResult_t ncclAlltoAll(const void* sent, void* received, size_t count, ncclDataType_t type, ncclComm_t communicator,
                          cudaStream_t stream) {
  return add_call(communicator, stream, {CallKind::kAllToAll, sent, received, count, type, ncclSum, 0});
}

ncclResult_t ncclSend(const void* sent, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  return add_call(communicator, stream, {CallKind::kSend, sent, nullptr, count, type, ncclSum, peer});
}

ncclResult_t ncclRecv(void* received, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  return add_call(communicator, stream, {CallKind::kReceive, nullptr, received, count, type, ncclSum, peer});
}

}  // extern "C"
