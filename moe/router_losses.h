// Losses on the routers of one micro-step: the balance loss and the z-loss of every visit that is differentiated
// (docs/model_family.md section 3).
//   A: E sum_i f_i p_i per visit, or (summed) once per stored layer over the means of f and p over its visits;
//      f_i = slots of expert i / (N k), without gradient; p_i = mean over tokens of score / sum of scores
//   Q: sum over visits of the mean over tokens of logsumexp(router logits)^2
// N is the number of tokens of all ranks in the same micro-step, f is counted over all of them. The gradient of A needs
// the counts of every visit, so it starts when the forward pass is over.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "autograd/operations.h"
#include "comm/communicator.h"

namespace heddle {

enum class AuxScope { kLoop, kSummed };

struct RouterLossConfig {
  double aux = 0;  ///< coefficient of A
  double z = 0;    ///< coefficient of Q
  AuxScope scope = AuxScope::kLoop;
  bool measure = false;  ///< compute A and Q also where their coefficients are zero
};

/// One visit of one router: the stored layer it belongs to (any number that names it), and its place in the order.
struct RouterVisit {
  int64_t layer = 0, loop = 0;
  auto operator<=>(const RouterVisit&) const = default;
};

class RouterLosses {
 public:
  /// tokens: N over all ranks; weight: the share of this micro-step in the step (its tokens over those of the step).
  RouterLosses(const RouterLossConfig& config, int64_t experts, int64_t k, int64_t tokens, double weight)
      : config_(config), experts_(experts), k_(k), tokens_(tokens), weight_(weight) {}

  /// Once per visit, before the scores take over the logits' memory: adds to Q, and to the gradient of the logits.
  void add_logits(Tape& tape, const Variable& logits);
  /// Once per visit: index int32 [n,k] as chosen, scores [n,E].
  void add_choice(Tape& tape, RouterVisit visit, const Tensor& index, const Variable& scores);

  /// After the last visit of the forward pass: starts the gradients of A. Collective over `world` if A is wanted.
  void finish(Communicator& world);
  /// From here on visits are those of a recomputation: they get gradients and are not counted again.
  void replay() { replaying_ = true; }

  /// This rank's part of A and Q of the micro-step, times its weight; summed over ranks and micro-steps they are those
  /// of the step.
  double aux() const { return aux_; }
  double router_z() const { return router_z_; }

 private:
  struct Visit {
    RouterVisit visit;
    Tensor slots;    ///< int64 [E] of this rank
    Variable share;  ///< [E] sum over this rank's tokens of score / sum of scores
  };
  void start_gradient(const Visit& visit);

  RouterLossConfig config_;
  int64_t experts_, k_, tokens_;
  double weight_;
  bool replaying_ = false;
  double aux_ = 0, router_z_ = 0;
  std::vector<Visit> visits_;
  std::map<RouterVisit, std::vector<float>> gradients_;  ///< of the shares
};

}  // namespace heddle
