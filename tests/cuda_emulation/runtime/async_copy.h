// The copies that a thread has begun (cuda_emulation/async_copy.h).
#pragma once

#include "runtime/thread_block.h"

namespace cuda_emulation {

/// When a thread ends: fails if it left copies under way.
void check_async_copies_are_done(const Thread& thread);

}  // namespace cuda_emulation
