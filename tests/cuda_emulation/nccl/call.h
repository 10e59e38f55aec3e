// One call of the NCCL interface, as it waits in a group or on a stream.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <string>

namespace cuda_emulation {

enum class CallKind : int {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kSend,
  kReceive,
};

struct NcclCall {
  CallKind kind;
  const void* sent;  ///< nullptr for a receive
  void* received;    ///< nullptr for a send
  size_t count;      ///< as the interface counts: elements per rank for gathers, scatters and all-to-all
  ncclDataType_t type;
  ncclRedOp_t operation;  ///< ncclSum where nothing is reduced
  int peer;               ///< root or partner; 0 where there is none
};

bool is_collective(const NcclCall& call);
bool is_reduction(const NcclCall& call);

/// Bytes of an element; 0 for types that the emulation does not have.
size_t bytes_of(ncclDataType_t type);

/// Bytes that this rank contributes or gets.
size_t sent_bytes(const NcclCall& call, int rank, int size);
size_t received_bytes(const NcclCall& call, int rank, int size);

/// For messages: "AllReduce of 64 float32 (sum)".
std::string describe(const NcclCall& call);

}  // namespace cuda_emulation
