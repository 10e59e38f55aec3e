// A call between ranks that does not end: another rank hangs, is stopped, or makes other calls. MPI would wait for
// ever. A thread looks at the clock and ends the process, and with it the job, with the call and its place named.
#pragma once

#include <string>

namespace heddle {

/// Seconds without an end of a call between ranks after which a rank gives up; 0: it waits for ever. For MPI and NCCL.
void set_collective_timeout(double seconds);
double collective_timeout();

/// Prints the message and ends the process with status 1, and with it the job, without unwinding: what would be unwound
/// waits for other ranks. Callable from any thread.
[[noreturn]] void give_up(const std::string& message, const std::string& hint);

/// Time that passes while one looks on: seconds between two looks count at most as one, so that a job that was
/// suspended and goes on has not waited meanwhile.
class WatchedTime {
 public:
  double seconds();  ///< since the first call

 private:
  double last_ = -1, sum_ = 0;
};

/// Stands while the calling thread, which is the one of all calls between ranks, is inside of one.
class WatchedCall {
 public:
  WatchedCall(const char* operation, int rank, int size);
  ~WatchedCall();
  WatchedCall(const WatchedCall&) = delete;
  WatchedCall& operator=(const WatchedCall&) = delete;
};

}  // namespace heddle
