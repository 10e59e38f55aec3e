// Random choices of order, all from one generator, so that a seed repeats a run.
#pragma once

#include <cstdint>

namespace cuda_emulation {

extern uint64_t random_state;  ///< 0 before the first number
void start_random();

/// Uniform in [0, bound), bound > 0.
inline uint32_t random_below(uint32_t bound) {
  if (random_state == 0) start_random();
  // xorshift64 (Marsaglia 2003), which never comes to 0
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return static_cast<uint32_t>(((random_state >> 32) * bound) >> 32);
}

}  // namespace cuda_emulation
