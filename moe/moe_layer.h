// One Mixture-of-Experts feed-forward, as visited in one loop: router -> choice -> capacity -> plan -> dispatch ->
// experts -> combine, plus the shared experts (docs/loom.md section 3.6).
#pragma once

#include <vector>

#include "autograd/operations.h"
#include "comm/process_groups.h"
#include "moe/capacity.h"
#include "moe/route_plan.h"
#include "moe/router_losses.h"

namespace heddle {

/// Who chooses. The rigged gates are for tests and benchmarks of routing that is perfectly even, or as uneven as can
/// be; scores and weights are the router's in each.
enum class Gate {
  kLearned,  ///< the largest score + bias
  kUniform,  ///< experts in turn: token n of a rank's micro-batch takes n k, n k + 1, ... modulo E
  kFirst,    ///< every token takes experts 0 .. k - 1
};

enum class RouterScore { kSigmoid, kSoftmax };
enum class RouterSharing { kPerLoop, kShared, kSharedBias };
enum class BalanceScope { kLayer, kLayerLoop };

struct MoeConfig {
  int64_t experts = 0;         ///< E routed experts, in total over all ranks
  int64_t top_k = 0;           ///< k routed experts per token
  int64_t shared_experts = 0;  ///< Es
  int64_t intermediate = 0;    ///< F, width of one expert
  RouterScore score = RouterScore::kSigmoid;
  RouterSharing router = RouterSharing::kPerLoop;
  bool renormalise = true;  ///< weights of the chosen sum to one
  BalanceScope balance_scope = BalanceScope::kLayer;
  double aux_loss = 0;  ///< coefficient of the balance loss
  AuxScope aux_scope = AuxScope::kLoop;
  double router_z_loss = 0;    ///< coefficient
  double capacity_factor = 0;  ///< 0: dropless
  CapacityScope capacity_scope = CapacityScope::kRank;
  Gate gate = Gate::kLearned;
};

struct MoeParameters {
  std::vector<Parameter*> routers;        ///< [E,D], one per loop or one
  std::vector<Parameter*> router_biases;  ///< [E], one per loop; empty without
  Parameter* gate_proj = nullptr;         ///< [E,F,D], this rank's experts
  Parameter* up_proj = nullptr;           ///< [E,F,D]
  Parameter* down_proj = nullptr;         ///< [E,D,F]
  Parameter* shared_gate_proj = nullptr;  ///< [Es*F,D]; null without shared experts
  Parameter* shared_up_proj = nullptr;    ///< [Es*F,D]
  Parameter* shared_down_proj = nullptr;  ///< [D,Es*F]
  Tensor balance_bias;                    ///< [E] or [loops,E], added for the choice only, not trained by gradients
};

/// What was decided for the tokens of this rank in one visit.
struct Routing {
  Tensor scores;   ///< [N,E] sigmoid, without bias
  Tensor index;    ///< int32 [N,k], by falling score + bias
  Tensor keep;     ///< uint8 [N,k], undefined when nothing was dropped
  Tensor weights;  ///< [N,k], 0 where dropped
};

/// Where and how a visit happens.
struct MoeVisit {
  RouterVisit visit;         ///< stored layer, and loop from 0
  int64_t router = 0;        ///< row of the routers, router biases and balance biases: those beyond their last are it
  bool use_capacity = true;  ///< off in evaluation
  RouterLosses* losses = nullptr;
  Routing* routing = nullptr;            ///< receives the decisions
  RowMarks* marks = nullptr;             ///< those of this visit (route_plan.h), or null
  const Tensor* choice = nullptr;        ///< int32 [N,k] in place of the router's choice; null: the router chooses
  std::vector<int64_t> skipped_experts;  ///< whose slots contribute nothing; without a recording tape only
};

/// A router applied to x [N,D] outside of any visit, as number `router` would choose in one (rows beyond the last are
/// it): what observers compare a visit with. Not collective; nothing is recorded.
struct RouterDecision {
  Tensor logits;    ///< [N,E]
  Tensor index;     ///< int32 [N,k], as moe.gate says
  Tensor unbiased;  ///< int32 [N,k], the largest scores without balance bias, whatever the gate
};
RouterDecision decide_by_router(Tape& tape, const MoeConfig& config, const MoeParameters& parameters, int64_t router,
                                const Tensor& x);

/// x [N,D] already normalised. Collective over the groups.
Variable moe_forward(Tape& tape, ProcessGroups& groups, const MoeConfig& config, const MoeParameters& parameters,
                     const MoeVisit& visit, const Variable& x);

}  // namespace heddle
