// One global step (docs/model_family.md sections 3 to 5): for every piece of the schedule of back-propagation, all
// micro-batches forward and backward; then one clip and one optimizer step per piece (or one for all); the balance
// biases move once at the end.
//
// The loss is the sum over the counted targets of the global batch divided by their number, whatever the ranks and
// micro-batches; every rank gets the same numbers back and takes the same decisions.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "model/looped_model.h"
#include "model/observer_list.h"
#include "optim/gradients.h"
#include "optim/optimizer.h"
#include "train/back_propagation.h"
#include "train/loop_statistics.h"
#include "train/routing_statistics.h"
#include "train/spike_guard.h"

namespace heddle {

struct StepConfig {
  BackPropagation back_propagation;
  std::vector<double> loop_weights;  ///< of the loss after each loop; empty: after the last loop only
  double clip_norm = 1.0;            ///< 0: off
  double balance_rate = 2e-3;        ///< step of the balance bias; 0: off
  bool spike_guard = false;
  bool measure_router_losses = false;  ///< report A and Q also where their coefficients are zero
  int64_t largest_loops = 0;           ///< that any step will run; 0: the model's
  int64_t statistics_stride = 4;       ///< of the tokens of a sequence whose states a look compares
  /// Bytes of complete gradients whose sum over ranks begins together, while the backward pass goes on (layout).
  int64_t reduction_bucket = int64_t{25} << 20;
};

/// What is special about a step.
struct StepPlan {
  int64_t step = 1;            ///< global step, from 1
  double schedule_factor = 1;  ///< of the peak rates
  int64_t loops = 0;           ///< to run; 0: the model's
  bool look = false;           ///< make a StatisticsRecord of this step
};

struct StepResult {
  std::vector<double> segment_loss;        ///< objective per piece, mean over the global batch, before its update
  std::vector<double> cross_entropy;       ///< per piece: mean cross-entropy, weighted by loop_weights
  std::vector<double> last_cross_entropy;  ///< per piece: after its last loop with a loss, unweighted
  std::vector<double> aux, router_z;       ///< per piece: balance loss A and router z-loss Q, before their coefficients
  std::vector<double> gradient_norm;     ///< per piece, before clipping; pieces that share an update: with the last one
  std::vector<int64_t> skipped;          ///< per piece: 1 where no update was made (not finite, or a spike)
  int64_t counted_targets = 0;           ///< over all ranks; 0: the batch held nothing to learn from, and was skipped
  int64_t loops = 0;                     ///< that were run
  std::optional<StatisticsRecord> look;  ///< if it was asked for, and the step had targets
};

class TrainStep {
 public:
  TrainStep(LoopedModel& model, Optimizer& optimizer, const StepConfig& config);

  /// Every rank passes the same number of micro-batches, also empty ones. Collective. The lists of the result have
  /// segment_count() entries, NaN (1 in skipped) for pieces that did not run or that this step does not have.
  StepResult run(const std::vector<TokenBatch>& micro_batches, const StepPlan& plan);

  const RoutingStatistics& statistics() const { return statistics_; }  ///< of the last step, over all ranks
  SpikeGuard& spike_guard() { return spike_guard_; }
  size_t segment_count() const { return segments_; }  ///< most pieces that a step can have
  int64_t largest_loops() const { return largest_loops_; }

 private:
  std::vector<MicroStep> count(const std::vector<TokenBatch>& micro_batches, StepResult& result) const;
  /// updates: an update follows.
  PieceSums run_piece(const std::vector<TokenBatch>& micro_batches, const std::vector<MicroStep>& micro_steps,
                      const Piece& piece, bool last, bool updates);
  void report(size_t segment, PieceSums sums, StepResult& result) const;
  bool update(size_t segment, const StepPlan& plan, StepResult& result);
  void balance();

  LoopedModel& model_;
  Optimizer& optimizer_;
  StepConfig config_;
  int64_t largest_loops_;
  size_t segments_;
  SpikeGuard spike_guard_;
  RoutingStatistics statistics_;
  LoopStatistics looks_;
  ObserverList observers_;
  RouterLossConfig router_losses_;
  PieceRun piece_run_;
  GradientReduction reduction_;
  std::vector<LoopCarry> carries_;  ///< per micro-batch
};

}  // namespace heddle
