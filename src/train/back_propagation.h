// Back-propagation through the loops of one micro-batch, by schedule (docs/model_family.md section 4):
//   full          through all loops
//   checkpointed  the same gradient; the state is kept every K loops only, and one such segment is recomputed at a time
//   truncated     the first R - B loops run without gradient
//   segmented     each segment of K loops has a loss of its own; the state crosses segments without its graph
// A piece is what is differentiated at once: all loops, or one segment.
//
// Each exit (coda, head and loss after a loop) has a tape of its own that is unwound at once, so that its activations
// never meet those of the loops, and gradients add up in the same order in every schedule.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "model/counting.h"
#include "model/looped_model.h"

namespace heddle {

enum class BackPropagationMode { kFull, kCheckpointed, kTruncated, kSegmented };
extern const Names<BackPropagationMode> kBackPropagationModes;

struct BackPropagation {
  BackPropagationMode mode = BackPropagationMode::kFull;
  int64_t loops = 0;             ///< B of truncated, K of checkpointed and segmented
  bool step_per_segment = true;  ///< segmented: clip and update after every segment; false: gradients add up
};

/// Loops first .. last - 1 (from 0) of one loss; those before gradient_from run without gradient.
struct Piece {
  int64_t first = 0, gradient_from = 0, last = 0;
  int64_t kept_every = 0;  ///< loops between kept states; 0: nothing is recomputed
};
std::vector<Piece> pieces_of(const BackPropagation& schedule, int64_t loops);
/// What a token passes in a step of so many loops.
LoopWork work_of(const BackPropagation& schedule, const std::vector<double>& loop_weights, int64_t loops);

/// Sums over this rank's targets, and this rank's parts of the router losses (moe/router_losses.h).
struct PieceSums {
  double cross_entropy = 0;       ///< weighted by loop
  double last_cross_entropy = 0;  ///< of the last exit, unweighted
  double logit_z = 0;             ///< weighted by loop
  double aux = 0, router_z = 0;
};

/// Numbers of one micro-step that all ranks share.
struct MicroStep {
  double gradient_scale = 0;  ///< 1 / counted targets of the global batch
  int64_t tokens = 0;         ///< of all ranks in this micro-step
  double weight = 1;          ///< its share of the tokens of the step
};

class PieceRun {
 public:
  /// loop_weights: of the loss after each loop, one per loop; empty: after the last loop only, weight 1.
  PieceRun(LoopedModel& model, const std::vector<double>& loop_weights, const RouterLossConfig& router_losses,
           ForwardObserver* observer)
      : model_(model), loop_weights_(loop_weights), router_losses_(router_losses), observer_(observer) {}

  /// Forward and backward; gradients are added to the parameters'. carry: the state before the first loop, or none for
  /// the start of the sequence; receives the state after the last one if wanted. listener: learns which gradients are
  /// complete, where this run is the last that adds to them; else null. Collective.
  PieceSums run(const TokenBatch& batch, const Piece& piece, const MicroStep& micro_step, LoopCarry* carry,
                bool want_carry, GradientListener* listener = nullptr);

 private:
  struct StateGradient {
    Tensor state, n_global;
    std::vector<Tensor> lanes;
  };
  double weight_of(int64_t loop, int64_t last) const;
  RouterLosses make_losses(const MicroStep& micro_step) const;
  StateGradient take(const LoopState& leaves) const;
  void pass(const LoopState& to, StateGradient gradient) const;

  /// Loops without gradient; exits after them train head and coda only.
  LoopState run_without_gradient(const TokenBatch& batch, const Variable& embedding, LoopState state, int64_t first,
                                 int64_t last, int64_t end, const MicroStep& micro_step, PieceSums& sums);
  /// Coda, head and loss after a loop, unwound at once: gradients go to the slots of `state` and `embedding`. listener:
  /// of the last exit, where all other tapes that add to gradients have been recorded.
  void exit(const TokenBatch& batch, const Variable& embedding, const LoopState& state, double weight,
            const MicroStep& micro_step, PieceSums& sums, GradientListener* listener = nullptr);
  /// Loops up to `last` without a graph, keeping states for recompute(); returns the state as leaves of `leaves_of`.
  LoopState run_and_keep(const Tape& leaves_of, const TokenBatch& batch, const Variable& embedding, const Piece& piece,
                         int64_t last, const LoopedModel::Options& options, const MicroStep& micro_step,
                         PieceSums& sums);
  /// The kept segments once more, from the last to the first, each unwound at once.
  void recompute(const TokenBatch& batch, const Variable& embedding, const Piece& piece, RouterLosses& losses,
                 StateGradient gradient, GradientListener* listener);

  LoopedModel& model_;
  const std::vector<double>& loop_weights_;
  const RouterLossConfig& router_losses_;
  ForwardObserver* observer_;
  std::vector<LoopCarry> kept_;             ///< states before each segment that will be recomputed
  std::map<int64_t, StateGradient> exits_;  ///< gradients that exits sent to states that are recomputed later
};

}  // namespace heddle
