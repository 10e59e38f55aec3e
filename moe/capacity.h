// Capacity: an expert takes at most C slots per micro-step; the slots with the lowest weights are dropped first
// (docs/loom.md section 3.6, step 4).
#pragma once

#include "comm/communicator.h"
#include "kernels/kernels.h"
#include "tensor/tensor.h"

namespace heddle {

/// Whose tokens count towards C and compete for the slots.
enum class CapacityScope {
  kRank,    ///< those of one rank's micro-batch (as released)
  kGlobal,  ///< those of all ranks in the same micro-step
};

/// C = max(1, floor(factor * tokens * k / experts)), in double, left to right.
int64_t capacity_slots(double factor, int64_t tokens, int64_t k, int64_t experts);

/// Keep flags uint8 [N,k] (1 kept, 0 dropped), or an undefined tensor if no expert exceeds its capacity. Among slots of
/// equal weight those of the lower token (then lower rank) stay. index int32 [N,k], weights [N,k] renormalised.
/// Collective over `world` in the global scope (each expert's slots are judged by one rank); local in the other.
Tensor capacity_keep(const Kernels& kernels, Communicator& world, CapacityScope scope, double factor, int64_t experts,
                     const Tensor& index, const Tensor& weights);

}  // namespace heddle
