#include "support/parallel.h"

#include <omp.h>

#include <atomic>
#include <exception>
#include <mutex>

namespace heddle {

namespace {

struct Team {
  int64_t count;
  void (*body)(void*, Chunk);
  void* context;
  std::mutex mutex;
  std::exception_ptr error;

  /// One worker's part.
  void work() {
    const int64_t workers = omp_get_num_threads(), worker = omp_get_thread_num();
    const Chunk chunk{count * worker / workers, count * (worker + 1) / workers, static_cast<int>(worker)};
    if (chunk.first == chunk.last) return;
    try {
      body(context, chunk);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  }
};

#ifdef __SANITIZE_THREAD__
// ThreadSanitizer does not see how GCC's runtime starts a team, hands over what the region captures, and joins it. So
// this region captures nothing, and atomics say what happened before what.
std::mutex g_one_team;
std::atomic<Team*> g_team;
std::atomic<int> g_ended;

void run(Team& team) {
  const std::lock_guard lock(g_one_team);
  g_team.store(&team, std::memory_order_release);
#pragma omp parallel
  {
    g_team.load(std::memory_order_acquire)->work();
    g_ended.fetch_add(1, std::memory_order_acq_rel);
  }
  g_ended.exchange(0, std::memory_order_acq_rel);
}
#else
void run(Team& team) {
#pragma omp parallel
  team.work();
}
#endif

}  // namespace

int parallel_workers() {
  return omp_get_max_threads();
}

void run_team(int64_t count, bool worthwhile, void (*body)(void* context, Chunk chunk), void* context) {
  if (!worthwhile || omp_get_max_threads() == 1 || omp_in_parallel()) {
    if (count > 0) body(context, Chunk{0, count, 0});
    return;
  }
  Team team{count, body, context, {}, {}};
  run(team);
  if (team.error) std::rethrow_exception(team.error);
}

}  // namespace heddle
