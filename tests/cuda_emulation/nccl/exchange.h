// One operation on a stream: the calls of a group that share communicator and stream, or a single call.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "nccl/communicator.h"

namespace cuda_emulation {

/// Collectives are done one after the other in the order of the calls; then all messages make progress together.
class Exchange {
 public:
  Exchange(ncclComm* communicator, int device, std::vector<NcclCall> calls);

  /// Both on the stream, when it gets there.
  void start();
  /// Asked again and again; true once everything is done, or the communicator was aborted.
  bool is_done();

 private:
  struct Message {
    NcclCall call;
    uint64_t number;  ///< among those from its sender to its receiver
    uint64_t offset = 0;
    bool posted = false, done = false;
  };

  void check_operands(const NcclCall& call) const;
  void post_collective();
  bool finish_collective();
  void compare_with_peer(const NcclCall& mine, int peer, const NcclCall& other) const;
  void take_results(const NcclCall& call);
  bool advance(Message& message);
  bool advance_send(Message& message);
  bool advance_receive(Message& message);
  bool waits_for(int rank) const;
  void look_after_peers(bool progressed);
  void set_last_call(const NcclCall& call);
  void end();

  ncclComm* communicator_;
  int device_;
  std::vector<NcclCall> collectives_;
  std::vector<Message> messages_;
  size_t next_collective_ = 0;
  bool collective_posted_ = false;
  uint64_t collective_number_ = 0;
  ncclComm::Clock::time_point deadline_, next_look_;
};

}  // namespace cuda_emulation
