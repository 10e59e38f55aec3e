#include "nccl/call.h"

namespace cuda_emulation {

namespace {

const char* name_of(CallKind kind) {
  switch (kind) {
    case CallKind::kAllReduce:
      return "AllReduce";
    case CallKind::kReduce:
      return "Reduce";
    case CallKind::kBroadcast:
      return "Broadcast";
    case CallKind::kAllGather:
      return "AllGather";
    case CallKind::kReduceScatter:
      return "ReduceScatter";
    case CallKind::kAllToAll:
      return "AlltoAll";
    case CallKind::kSend:
      return "Send";
    case CallKind::kReceive:
      break;
  }
  return "Recv";
}

const char* name_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return "int8";
    case ncclUint8:
      return "uint8";
    case ncclInt32:
      return "int32";
    case ncclUint32:
      return "uint32";
    case ncclInt64:
      return "int64";
    case ncclUint64:
      return "uint64";
    case ncclFloat32:
      return "float32";
    case ncclFloat64:
      return "float64";
    case ncclBfloat16:
      return "bfloat16";
    default:
      return "elements of a type that the emulation does not have";
  }
}

const char* name_of(ncclRedOp_t operation) {
  switch (operation) {
    case ncclSum:
      return "sum";
    case ncclProd:
      return "product";
    case ncclMax:
      return "max";
    case ncclMin:
      return "min";
    default:
      return "average";
  }
}

}  // namespace

bool is_collective(const NcclCall& call) {
  return call.kind != CallKind::kSend && call.kind != CallKind::kReceive;
}

bool is_reduction(const NcclCall& call) {
  return call.kind == CallKind::kAllReduce || call.kind == CallKind::kReduce || call.kind == CallKind::kReduceScatter;
}

size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

size_t sent_bytes(const NcclCall& call, int rank, int size) {
  const size_t bytes = call.count * bytes_of(call.type);
  switch (call.kind) {
    case CallKind::kReduceScatter:
    case CallKind::kAllToAll:
      return bytes * static_cast<size_t>(size);
    case CallKind::kBroadcast:
      return rank == call.peer ? bytes : 0;
    case CallKind::kReceive:
      return 0;
    default:
      return bytes;
  }
}

size_t received_bytes(const NcclCall& call, int rank, int size) {
  const size_t bytes = call.count * bytes_of(call.type);
  switch (call.kind) {
    case CallKind::kAllGather:
    case CallKind::kAllToAll:
      return bytes * static_cast<size_t>(size);
    case CallKind::kReduce:
      return rank == call.peer ? bytes : 0;
    case CallKind::kSend:
      return 0;
    default:
      return bytes;
  }
}

std::string describe(const NcclCall& call) {
  std::string text = std::string(name_of(call.kind)) + " of " + std::to_string(call.count) + " " + name_of(call.type);
  if (is_reduction(call)) text += std::string(" (") + name_of(call.operation) + ")";
  if (call.kind == CallKind::kReduce || call.kind == CallKind::kBroadcast)
    text += " with root " + std::to_string(call.peer);
  if (call.kind == CallKind::kSend) text += " to rank " + std::to_string(call.peer);
  if (call.kind == CallKind::kReceive) text += " from rank " + std::to_string(call.peer);
  return text;
}

}  // namespace cuda_emulation
