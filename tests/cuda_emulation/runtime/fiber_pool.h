// Fibers for the threads of a block, used again for the next blocks.
#pragma once

#include "runtime/fiber.h"

namespace cuda_emulation {

/// Before a block: chooses fibers. Under ThreadSanitizer a fiber's past orders all that runs on it, which would hide
/// races; so a block's threads never share one, and blocks take their fibers from several sets at random.
void choose_fibers();

/// A fiber that runs no thread. New ones start with `entry`.
Fiber* take_fiber(void (*entry)());
/// The fiber's thread has ended, and the fiber waits to be resumed for another.
void give_back_fiber(Fiber* fiber);

}  // namespace cuda_emulation
