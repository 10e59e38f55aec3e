#include "runtime/random.h"

#include "runtime/options.h"

namespace cuda_emulation {

uint32_t random_below(uint32_t bound) {
  // xorshift64 (Marsaglia 2003), started by one multiplication so that small seeds differ in all bits.
  static uint64_t state = options().seed * 0x9e3779b97f4a7c15ull + 0x2545f4914f6cdd1dull;
  if (state == 0) state = 1;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return static_cast<uint32_t>(((state >> 32) * bound) >> 32);
}

}  // namespace cuda_emulation
