// Tokens to experts and back, as differentiable operations over one route plan. Collective over the group, forward and
// backward: every rank of the group calls them, also with no tokens or no slots.
#pragma once

#include "autograd/tape.h"
#include "moe/route_plan.h"

namespace heddle {

/// x [N,D] -> rows for the local experts in expert order [slots,D].
Variable dispatch(Tape& tape, Communicator& group, const std::shared_ptr<const RoutePlan>& plan, const Variable& x);

/// y [slots,D] in expert order -> [N,D]: for every token the sum of weight * y over its slots, first summed on the rank
/// of the experts (one row travels back per row sent), then over ranks. `weights` [N,k] are those of the plan; they get
/// their gradient here.
Variable combine(Tape& tape, Communicator& group, const std::shared_ptr<const RoutePlan>& plan, const Variable& y,
                 const Variable& weights);

}  // namespace heddle
