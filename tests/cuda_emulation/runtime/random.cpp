#include "runtime/random.h"

#include "runtime/options.h"

namespace cuda_emulation {

uint64_t random_state = 0;

void start_random() {
  // The multiplication makes small seeds differ in all bits.
  random_state = options().seed * 0x9e3779b97f4a7c15ull + 0x2545f4914f6cdd1dull;
  if (random_state == 0) random_state = 1;
}

}  // namespace cuda_emulation
