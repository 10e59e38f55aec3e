// Random choices of order, all from one generator, so that a seed repeats a run.
#pragma once

#include <cstdint>

namespace cuda_emulation {

/// Uniform in [0, bound), bound > 0.
uint32_t random_below(uint32_t bound);

}  // namespace cuda_emulation
