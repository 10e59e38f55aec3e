// Growth: what a model with more loops starts from (docs/model_family.md section 5, "Growth").
#pragma once

#include <string>

#include "model/looped_model.h"
#include "optim/optimizer.h"

namespace heddle {

/// The loop (from 0) that a tensor of the core belongs to by its name: a router of a tied core, or everything of an
/// untied one; -1: all loops share it, or it is not of the core.
int64_t loop_of_tensor(const std::string& name, bool tied);

/// Gives loops active_loops() .. config().loops - 1 their tensors: untied core j a copy of core j mod active_loops(),
/// routers and every row by loop a copy of the last. Copies start without optimizer state; everything else keeps its
/// own.
void grow(LoopedModel& model, Optimizer& optimizer);

}  // namespace heddle
