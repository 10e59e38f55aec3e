// Tokens to experts and back, as differentiable operations over one route plan, each in two halves: what is computed
// between them runs while rows travel, forward and backward. Collective over the group, forward and backward: every
// rank of the group calls them, also with no tokens or no slots.
#pragma once

#include "autograd/tape.h"
#include "moe/route_plan.h"

namespace heddle {

/// Rows on their way to their experts.
class Dispatch {
 public:
  /// Sends the rows of x [N,D].
  Dispatch(Tape& tape, Communicator& group, std::shared_ptr<const RoutePlan> plan, const Variable& x);
  /// Rows for the local experts in expert order [slots,D].
  Variable finish(Tape& tape);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Results on their way back to their tokens.
class Combine {
 public:
  /// y [slots,D] in expert order. For every token the sum of weight * y over its slots, first summed on the rank of the
  /// experts (one row travels back per row sent), then over ranks. `weights` [N,k] are those of the plan; they get
  /// their gradient here.
  Combine(Tape& tape, Communicator& group, std::shared_ptr<const RoutePlan> plan, const Variable& y,
          const Variable& weights);
  /// The sums [N,D], onto `base` (consumed) where that is defined, else in the memory of `into` where that is.
  Variable finish(Tape& tape, const Variable& base = {}, const Tensor& into = {});

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace heddle
