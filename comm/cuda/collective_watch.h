// Watches over collectives that are under way, whenever the host waits for the GPU: an error that NCCL noticed, or no
// end in time, ends the wait with the operation and its place named.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <deque>
#include <string>
#include <vector>

#include "comm/collective_guard.h"

namespace heddle {

class CollectiveWatch {
 public:
  /// The one of the process. Registers with the context, which asks it during every wait.
  static CollectiveWatch& instance();

  void add(ncclComm_t communicator);
  void remove(ncclComm_t communicator);

  /// Call behind every collective: it is under way until the communication stream has passed this point. Waits while
  /// too many are under way: the queue of a stream is limited, and where it is full the host would wait inside of a
  /// launch.
  void enqueued(const char* operation, int rank, int size);
  /// Ends the job if a communicator failed, or `waited` seconds are too many.
  void check(double waited);

 private:
  struct Call {
    cudaEvent_t end;
    const char* operation;
    int rank, size;
    CollectivePlace place;
  };
  void forget_first();
  void forget_finished();
  std::string first_unfinished();

  std::vector<ncclComm_t> communicators_;
  std::deque<Call> calls_;
};

}  // namespace heddle
