// One global step of LOOM (docs/loom.md section 4.2): for every segment of loops, all micro-batches forward and
// backward, then one clip and one optimizer step; the balance bias moves once at the end. Full back-propagation is the
// case of one segment.
//
// The loss is the sum over the counted targets of the global batch divided by their number, whatever the ranks and
// micro-batches; every rank gets the same numbers back and takes the same decisions.
#pragma once

#include <memory>
#include <vector>

#include "model/loom.h"
#include "optim/optimizer.h"
#include "train/routing_statistics.h"
#include "train/spike_guard.h"

namespace heddle {

struct StepConfig {
  int64_t segment_loops = 0;   ///< K loops per segment; 0: one segment over all loops
  double clip_norm = 1.0;      ///< 0: off
  double balance_rate = 2e-3;  ///< step of the balance bias; 0: off
  bool spike_guard = false;
};

/// Segments [first, last) of loops, from 0; the last may be shorter.
std::vector<std::pair<int64_t, int64_t>> segments_of(int64_t loops, int64_t segment_loops);

struct StepResult {
  std::vector<double> segment_loss;   ///< mean over the counted targets of the global batch, before the update
  std::vector<double> gradient_norm;  ///< before clipping; of the segments that ran
  std::vector<int64_t> skipped;       ///< 1 where no update was made (not finite, or a spike)
  int64_t counted_targets = 0;        ///< over all ranks; 0: the batch held nothing to learn from, and was skipped
};

class TrainStep {
 public:
  TrainStep(Loom& model, Optimizer& optimizer, const StepConfig& config);

  /// Every rank passes the same number of micro-batches, also empty ones. The factor of the schedule and the number of
  /// the global step, from 1, are the optimizer's. Collective.
  StepResult run(const std::vector<TokenBatch>& micro_batches, double schedule_factor, int64_t global_step);

  const RoutingStatistics& statistics() const { return statistics_; }  ///< of the last step, over all ranks
  SpikeGuard& spike_guard() { return spike_guard_; }
  size_t segment_count() const { return segments_.size(); }

 private:
  double run_segment(const std::vector<TokenBatch>& micro_batches, size_t segment, double gradient_scale);
  bool update(size_t segment, double loss, double schedule_factor, int64_t global_step, StepResult& result);

  Loom& model_;
  Optimizer& optimizer_;
  StepConfig config_;
  std::vector<std::pair<int64_t, int64_t>> segments_;
  SpikeGuard spike_guard_;
  RoutingStatistics statistics_;
  std::vector<LoopCarry> carries_;  ///< per micro-batch
};

}  // namespace heddle
