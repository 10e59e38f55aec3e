#include "comm/call_watchdog.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "comm/collective_guard.h"
#include "support/error.h"
#include "support/log.h"

namespace heddle {

namespace {

std::atomic<double> g_timeout = 1800;

/// Started by the first call.
class Watchdog {
 public:
  static Watchdog& instance() {
    static Watchdog watchdog;
    return watchdog;
  }

  void enter(const char* operation, int rank, int size) {
    const std::scoped_lock lock(mutex_);
    call_ = {operation, rank, size, collective_place(), {}};
    if (!thread_.joinable()) thread_ = std::thread([this] { watch(); });
  }
  void leave() {
    const std::scoped_lock lock(mutex_);
    call_.operation = nullptr;
  }

  ~Watchdog() {
    {
      const std::scoped_lock lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

 private:
  struct Call {
    const char* operation = nullptr;  ///< null: none is under way
    int rank = 0, size = 1;
    CollectivePlace place;
    WatchedTime waited;
  };

  void watch() {
    std::unique_lock lock(mutex_);
    while (!ends_) {
      const double timeout = g_timeout;
      if (call_.operation != nullptr && timeout > 0) {
        const double waited = call_.waited.seconds();
        if (waited > timeout)
          give_up(fmt::format("no end after {:.0f} s (run.collective_timeout): rank {} of {} waits in {} at {}", waited,
                              call_.rank, call_.size, call_.operation, text_of(call_.place)),
                  "another rank hangs or makes other calls: look at its last lines, or use run.check_collectives");
      }
      changed_.wait_for(lock, std::chrono::milliseconds(200));
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Call call_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace

void set_collective_timeout(double seconds) {
  g_timeout = seconds;
}

void give_up(const std::string& message, const std::string& hint) {
  log_error(fmt::format("{}\n  hint: {}", message, hint));
  std::fflush(nullptr);
  std::_Exit(static_cast<int>(ExitStatus::kFailure));
}

double WatchedTime::seconds() {
  const double now = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  if (last_ >= 0) sum_ += std::min(now - last_, 1.0);
  last_ = now;
  return sum_;
}

double collective_timeout() {
  return g_timeout;
}

WatchedCall::WatchedCall(const char* operation, int rank, int size) {
  Watchdog::instance().enter(operation, rank, size);
}

WatchedCall::~WatchedCall() {
  Watchdog::instance().leave();
}

}  // namespace heddle
