// The signal that a touch of protected device memory raises, turned into a message.
#pragma once

#include "runtime/device_arena.h"

namespace cuda_emulation {

/// From now on a segmentation fault inside the arena, which lives for ever, ends in fail().
void explain_faults_in(const DeviceArena& arena);

}  // namespace cuda_emulation
