#include "runtime/fiber_pool.h"

#include <utility>
#include <vector>

#include "runtime/random.h"
#include "runtime/sanitizers.h"

namespace cuda_emulation {

namespace {

constexpr uint32_t kSets = 4;

struct Pool {
  std::vector<Fiber*> idle[kSets];
  std::vector<Fiber*> used_by_block;
  uint32_t chosen = 0;
};

Pool& pool() {
  static auto* the_pool = new Pool;  // never destroyed: the process may end while fibers stand on their stacks
  return *the_pool;
}

}  // namespace

void choose_fibers() {
  if (!under_thread_sanitizer()) return;
  const UnwatchedScope unwatched;
  Pool& p = pool();
  std::vector<Fiber*>& idle = p.idle[p.chosen];
  idle.insert(idle.end(), p.used_by_block.begin(), p.used_by_block.end());
  p.used_by_block.clear();
  p.chosen = random_below(kSets);
}

Fiber* take_fiber(void (*entry)()) {
  std::vector<Fiber*>& idle = pool().idle[pool().chosen];
  if (idle.empty()) return Fiber::create(entry);
  const size_t any = under_thread_sanitizer() ? random_below(static_cast<uint32_t>(idle.size())) : idle.size() - 1;
  std::swap(idle[any], idle.back());
  Fiber* fiber = idle.back();
  idle.pop_back();
  return fiber;
}

void give_back_fiber(Fiber* fiber) {
  const UnwatchedScope unwatched;
  Pool& p = pool();
  (under_thread_sanitizer() ? p.used_by_block : p.idle[p.chosen]).push_back(fiber);
}

}  // namespace cuda_emulation
