// What a run says before its first step: ranks, hosts, device, layout, parameters, data, memory.
#pragma once

#include <string>

#include "comm/job.h"
#include "data/token_store.h"
#include "model/looped_model.h"
#include "train/train_config.h"

namespace heddle {

/// The report, to be printed by rank 0. Collective (every rank contributes its line). Warns on ranks whose threads are
/// bound to fewer cores than they use.
std::string startup_report(Job& job, const TrainConfig& config, const TokenStore& store, LoopedModel& model,
                           const Device& device, double peak_flops, const MemoryUse& plan);

/// Table of tensor memory by purpose, largest over ranks: now, peak so far, and planned (train/memory_plan.h); and what
/// of the GPU is in use. Collective.
std::string memory_report(Communicator& world, const MemoryUse& plan, const Device& device);

}  // namespace heddle
