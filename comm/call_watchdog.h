// A call between ranks that does not end: another rank hangs, is stopped, or makes other calls. MPI would wait for
// ever. A thread looks at the clock and ends the process, and with it the job, with the call and its place named.
#pragma once

namespace heddle {

/// Seconds without an end of a call between ranks after which a rank gives up; 0: it waits for ever. For MPI and NCCL.
void set_collective_timeout(double seconds);
double collective_timeout();

/// Stands while the calling thread, which is the one of all calls between ranks, is inside of one.
class WatchedCall {
 public:
  WatchedCall(const char* operation, int rank, int size);
  ~WatchedCall();
  WatchedCall(const WatchedCall&) = delete;
  WatchedCall& operator=(const WatchedCall&) = delete;
};

}  // namespace heddle
