// A communicator: the place where its ranks meet, and what is under way.
#pragma once

#include <nccl.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "nccl/control_block.h"
#include "nccl/payload.h"

struct ncclComm {
  using Clock = std::chrono::steady_clock;

  int rank = 0, size = 1;
  int device = 0;  ///< index into visible_devices()
  cuda_emulation::ControlBlock* control = nullptr;
  std::unique_ptr<cuda_emulation::PayloadFile[]> payloads;  ///< by rank

  // Operations (a call, or a group's calls on one stream) start in the order of the calls, on whatever streams.
  uint64_t operations_issued = 0, operations_started = 0, operations_done = 0;
  uint64_t collectives_begun = 0;
  uint64_t sends_begun[cuda_emulation::kMostRanks] = {}, receives_begun[cuda_emulation::kMostRanks] = {};

  /// Own data of collectives that others may still have to read, oldest first.
  struct Lent {
    uint64_t collective, offset, bytes;
  };
  std::deque<Lent> lent;

  ncclResult_t async_error = ncclSuccess;
  bool aborted = false;

  cuda_emulation::RankRecord& record(int of_rank) { return control->ranks[of_rank]; }
  cuda_emulation::RankRecord& mine() { return record(rank); }
};

namespace cuda_emulation {

/// Drops the lent data that all ranks have read.
void drop_what_was_read(ncclComm& communicator);

/// Whether this rank, which is not the caller's, cannot take part any more: its process ended, or it left or aborted.
bool is_lost(ncclComm& communicator, int rank);

/// One line per rank for messages: what it called last, and whether it still lives.
std::string state_of_ranks(ncclComm& communicator);

/// CUDA_EMULATION_NCCL_SECONDS: how long a rank waits for others before the run ends.
std::chrono::seconds patience();

/// The communicator's device and error state allow another operation.
ncclResult_t check_usable(const ncclComm* communicator);

}  // namespace cuda_emulation
