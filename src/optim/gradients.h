// Gradients over ranks: sums over the ranks that hold the same elements, and the norm that counts each element once.
#pragma once

#include "autograd/parameter.h"
#include "comm/process_groups.h"
#include "kernels/kernels.h"

namespace heddle {

/// Sums, in rank order, replicated gradients over all ranks and expert gradients over the expert's replicas. (An
/// expert's gradient already holds the tokens of its whole expert-parallel group.) Collective.
void reduce_gradients(ParameterSet& parameters, ProcessGroups& groups);

/// Euclidean norm over all parameters that have a gradient, every expert once, the same number on every rank.
/// Not finite if any gradient is not. Collective.
double gradient_norm(ParameterSet& parameters, ProcessGroups& groups, const Kernels& kernels);

}  // namespace heddle
