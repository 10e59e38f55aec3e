#include "support/stop_signal.h"

#include <pthread.h>

#include <csignal>
#include <cstdlib>
#include <ctime>

namespace heddle {

namespace {

std::atomic<int> g_received{0};

sigset_t awaited() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&set, signal);
  return set;
}

}  // namespace

StopSignal::StopSignal() {
  const sigset_t set = awaited();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  g_received = 0;
  thread_ = std::thread([this] { wait(); });
}

StopSignal::~StopSignal() {
  ends_ = true;
  thread_.join();
  g_received = 0;
  const sigset_t set = awaited();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void StopSignal::wait() {
  const sigset_t set = awaited();
  const timespec pause{0, 100'000'000};
  while (!ends_) {
    const int signal = sigtimedwait(&set, nullptr, &pause);
    if (signal <= 0) continue;
    if (g_received != 0) std::_Exit(128 + signal);
    g_received = signal;
  }
}

int StopSignal::received() {
  return g_received;
}

}  // namespace heddle
