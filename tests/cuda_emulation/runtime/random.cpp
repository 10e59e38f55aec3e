#include "runtime/random.h"

#include "runtime/options.h"

namespace cuda_emulation {

namespace {

uint64_t first_state() {
  // The multiplication makes small seeds differ in all bits; xorshift must not start at 0.
  const uint64_t state = options().seed * 0x9e3779b97f4a7c15ull + 0x2545f4914f6cdd1dull;
  return state != 0 ? state : 1;
}

}  // namespace

uint64_t random_state = first_state();

}  // namespace cuda_emulation
