// A polite end: SIGTERM, SIGINT or SIGUSR1 ask a run to stop at the next good place; a second one ends the process at
// once. The signals are blocked everywhere and awaited by a thread of their own, because oneDNN's products keep data
// below the stack pointer, where a handler on their thread would write (seen with 2.6.3: crashes and wrong memory).
#pragma once

#include <atomic>
#include <thread>

namespace heddle {

class StopSignal {
 public:
  /// Call before any other thread exists (MPI and OpenMP start some): they must inherit the blocked signals.
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// Number of the signal that came, 0 while none did or where no StopSignal stands.
  static int received();

 private:
  void wait();
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

}  // namespace heddle
