// Loops over several OpenMP threads: when a team pays, and stretches of work that do not depend on how many threads
// there are. The only place with parallel regions, so that errors leave them and ThreadSanitizer understands them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "support/narrow.h"

namespace heddle {

/// Elements below which a loop stays on one thread.
inline constexpr int64_t kParallelElements = 32768;
/// Elements of one stretch of an element-wise loop: fits in the first cache, the same at any thread count.
inline constexpr int64_t kStretch = 4096;

/// Threads of the next team at most.
int parallel_workers();

/// Indices [first, last) of a loop, done by one worker of [0, parallel_workers()).
struct Chunk {
  int64_t first, last;
  int worker;
};

/// What parallel_chunks() does, for a body behind a plain pointer.
void run_team(int64_t count, bool worthwhile, void (*body)(void* context, Chunk chunk), void* context);

/// Calls body(Chunk) for one chunk per worker, which together cover [0, count); alone on this thread if `worthwhile` is
/// false, or inside the body of another loop. Throws the first exception of a body, after all have ended.
template <typename Body>
void parallel_chunks(int64_t count, bool worthwhile, Body body) {
  run_team(
      count, worthwhile, [](void* context, Chunk chunk) { (*static_cast<Body*>(context))(chunk); }, &body);
}

/// Calls body(index) for [0, count).
template <typename Body>
void parallel_for(int64_t count, bool worthwhile, Body body) {
  parallel_chunks(count, worthwhile, [body](Chunk chunk) {
    for (int64_t i = chunk.first; i < chunk.last; ++i) body(i);
  });
}

/// Calls body(first, last) for the stretches of [0, count). What an element's vector neighbours are, and so its bits,
/// does not depend on the thread count.
template <typename Body>
void for_each_stretch(int64_t count, Body body) {
  parallel_for(div_up(count, kStretch), count > kParallelElements,
               [=](int64_t stretch) { body(stretch * kStretch, std::min((stretch + 1) * kStretch, count)); });
}

}  // namespace heddle
