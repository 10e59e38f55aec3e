// Segmentation faults turned into messages: the host that touches device memory, a kernel that touches what was never
// allocated or uses up its stack.
#pragma once

#include "runtime/device_arena.h"

namespace cuda_emulation {

/// From now on such faults end in fail(). The arena lives for ever.
void explain_faults(const DeviceArena& arena);

}  // namespace cuda_emulation
