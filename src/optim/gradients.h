// Gradients over ranks: sums over the ranks that hold the same elements, the norm that counts each element once, and
// the way of updated weights from the rank that owns them to the others.
#pragma once

#include "kernels/kernels.h"
#include "optim/shards.h"

namespace heddle {

/// Sums, in rank order, replicated gradients over all ranks and expert gradients over the expert's replicas. (An
/// expert's gradient already holds the tokens of its whole expert-parallel group.) With shards, only the owner of an
/// element has its sum afterwards. Collective.
void reduce_gradients(ParameterSet& parameters, const Shards& shards);

/// Euclidean norm over all parameters that have a gradient, every expert once, the same number on every rank and the
/// same bits with and without shards. Not finite if any gradient is not. Collective.
double gradient_norm(ParameterSet& parameters, ProcessGroups& groups, const Shards& shards, const Kernels& kernels);

/// Brings the weights that each rank has updated to all ranks that hold them; nothing to do without shards. Collective.
void gather_weights(ParameterSet& parameters, const Shards& shards);

}  // namespace heddle
