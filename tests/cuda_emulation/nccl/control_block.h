// What the ranks of a communicator tell each other: a file that all of them map. Every field is written by one rank
// only, or by the two of a pair; a counter is stored after what it counts.
#pragma once

#include <atomic>
#include <cstdint>

#include "nccl/call.h"

namespace cuda_emulation {

constexpr int kMostRanks = 64;

enum class RankState : uint32_t { kAbsent, kJoined, kReady, kLeft, kAborted };

/// A call and where its data stands in the poster's payload file (payload.h).
struct Post {
  NcclCall call;
  uint64_t offset, bytes;
};

struct RankRecord {
  /// A rank can be one collective ahead of another, so that two may be under way.
  static constexpr uint64_t kPosts = 4;

  std::atomic<RankState> state;
  int communicator_size, machine_device;
  std::atomic<uint64_t> collectives_posted, collectives_taken;
  Post posts[kPosts];
  char last_call[128];  ///< for messages only: it may be read while it is written
};

/// Messages from one rank to another.
struct PairRecord {
  static constexpr uint64_t kPosts = 8;

  std::atomic<uint64_t> posted, taken;
  Post posts[kPosts];
};

struct ControlBlock {
  RankRecord ranks[kMostRanks];
  PairRecord pairs[kMostRanks][kMostRanks];  ///< [from][to]
};

}  // namespace cuda_emulation
