// One Mixture-of-Experts feed-forward, as visited in one loop: router -> choice -> capacity -> plan -> dispatch ->
// experts -> combine, plus the shared experts (docs/loom.md section 3.6).
#pragma once

#include <vector>

#include "autograd/operations.h"
#include "comm/process_groups.h"
#include "moe/capacity.h"
#include "moe/route_plan.h"

namespace heddle {

/// Who chooses. The rigged gates are for tests and benchmarks of routing that is perfectly even, or as uneven as can
/// be; scores and weights are the router's in each.
enum class Gate {
  kLearned,  ///< the largest score + bias
  kUniform,  ///< experts in turn: token n of a rank's micro-batch takes n k, n k + 1, ... modulo E
  kFirst,    ///< every token takes experts 0 .. k - 1
};

struct MoeConfig {
  int64_t experts = 0;         ///< E routed experts, in total over all ranks
  int64_t top_k = 0;           ///< k routed experts per token
  int64_t shared_experts = 0;  ///< Es
  int64_t intermediate = 0;    ///< F, width of one expert
  bool renormalise = true;     ///< weights of the chosen sum to one
  double capacity_factor = 0;  ///< 0: dropless
  CapacityScope capacity_scope = CapacityScope::kRank;
  Gate gate = Gate::kLearned;
};

struct MoeParameters {
  std::vector<Parameter*> routers;        ///< one [E,D] per loop
  Parameter* gate_proj = nullptr;         ///< [E,F,D], this rank's experts
  Parameter* up_proj = nullptr;           ///< [E,F,D]
  Parameter* down_proj = nullptr;         ///< [E,D,F]
  Parameter* shared_gate_proj = nullptr;  ///< [Es*F,D]; null without shared experts
  Parameter* shared_up_proj = nullptr;    ///< [Es*F,D]
  Parameter* shared_down_proj = nullptr;  ///< [D,Es*F]
  Tensor balance_bias;                    ///< [E], added for the choice only, not trained by gradients
};

/// What was decided for the tokens of this rank in one visit.
struct Routing {
  Tensor scores;   ///< [N,E] sigmoid, without bias
  Tensor index;    ///< int32 [N,k], by falling score + bias
  Tensor keep;     ///< uint8 [N,k], undefined when nothing was dropped
  Tensor weights;  ///< [N,k], 0 where dropped
};

/// x [N,D] already normalised, loop from 0. `use_capacity`: off in evaluation. Collective over the groups.
/// `marks`: those of this visit (route_plan.h), or null.
Variable moe_forward(Tape& tape, ProcessGroups& groups, const MoeConfig& config, const MoeParameters& parameters,
                     int64_t loop, bool use_capacity, const Variable& x, Routing* routing, RowMarks* marks = nullptr);

}  // namespace heddle
