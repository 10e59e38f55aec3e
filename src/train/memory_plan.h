// Memory of a training step before it runs: the step itself, with a table of kernels that compute nothing, on pages
// that are never touched. So the plan is the program's own order of allocations, and nothing of it can go out of date.
#pragma once

#include "train/train_config.h"

namespace heddle {

/// Tensor bytes by purpose that rank `rank` of `ranks` holds (`current`, after the step) and reaches (`peak`) in a
/// training step when every expert gets its equal share of the tokens (or as moe.gate says). `model` is
/// config.model with its vocabulary known; `kernels` are those of the device. Not collective: any rank can plan for any
/// number of ranks.
MemoryUse plan_memory(const TrainConfig& config, const ModelConfig& model, int rank, int ranks,
                      const Kernels& kernels = cpu::kernels());

/// Throws UsageError where the rows of a step exceed the memory of this host, or what a micro-batch of few rows makes
/// expect of its many the room for tensors: before plan_memory(), which takes time and memory itself, for the routes of
/// all tokens.
void check_batch(const TrainConfig& config, const ModelConfig& model, int ranks, int local_ranks, const Device& device);

/// Throws UsageError if this plan exceeds the room on the device or, on a CPU, `local_ranks` ranks with it the memory
/// of this host.
void check_memory(const MemoryUse& plan, int local_ranks, const Device& device);

}  // namespace heddle
