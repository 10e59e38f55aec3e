// The used slots of a rank in the order of their experts, for operations that need no more than this.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/scratch.h"
#include "kernels/route_plan.h"

namespace heddle::cuda {

/// Scratch that order_slots takes.
size_t slot_order_bytes(const RouteShape& shape);

/// ordered: all slots by expert, then token. Returns where the experts start in it, [E + 1] on the device. There is at
/// least one slot; the ranks of the shape do not matter.
const int32_t* order_slots(const RouteShape& shape, const int32_t* index, Scratch& scratch, int64_t* ordered);

}  // namespace heddle::cuda
