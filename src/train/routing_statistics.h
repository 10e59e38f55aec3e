// Counts of one global step, per loop and layer of the core and per stored layer: what the run log and the balance bias
// need. An observer of the training forwards, which does not see recomputations, so nothing is counted twice. Counts
// are integers and exact at any layout. They add up where the tensors are; the host reads them once per step.
#pragma once

#include <cstdint>
#include <vector>

#include "model/looped_model.h"

namespace heddle {

class RoutingStatistics : public ForwardObserver {
 public:
  /// loops: the most that a step will run.
  RoutingStatistics(const LoopedModel& model, int64_t loops);

  void begin_step(size_t micro_batches);
  void select_micro_batch(size_t index) { micro_batch_ = index; }  ///< whose forward comes next
  void on_block(const BlockView& view) override;
  void on_loop_end(int64_t loop, const Tensor& state, const Tensor& inverse_rms) override;

  /// Sums everything over all ranks. Collective; once per step, before reading.
  void reduce(Communicator& world);

  int64_t load(int64_t loop, int64_t layer, int64_t expert) const;
  const std::vector<int64_t>& loads() const { return load_; }       ///< [loops, layers, experts] slots that were kept
  const std::vector<int64_t>& dropped() const { return dropped_; }  ///< [loops, layers]
  /// [experts] slots kept of a stored mixture-of-experts layer: of one of its rows (loops beyond the last count to it),
  /// or of all (row -1).
  std::vector<int64_t> stored_load(int64_t stored, int64_t row = -1) const;
  /// Mean over tokens of |top-k(t) and top-k(t+1)| / k: [loops - 1, layers]; NaN, here and below, where nothing was
  /// run.
  std::vector<double> overlap() const;
  /// Root mean square over all tokens and channels of the state at the end of each loop, before its norm if it has one:
  /// [loops].
  std::vector<double> state_rms() const;
  /// The same for the stream at the end of each block, before its norm if it has one: [loops, layers].
  std::vector<double> block_rms() const;

 private:
  size_t cell(int64_t loop, int64_t layer) const { return static_cast<size_t>(loop * layers_ + layer); }
  int64_t cells() const { return loops_ * layers_; }
  /// Adds the sum over tokens of the mean square to a number of squares_: from what a norm divided by, or of the state
  /// itself where there is no norm.
  void add_mean_squares(const Tensor& inverse_rms, const Tensor& state, int64_t to) const;
  void count_choices(const BlockView& view);
  void read_device();

  const LoopedModel& model_;
  int64_t loops_, layers_, experts_;
  int64_t overlaps_;  ///< k + 1: numbers of experts that two loops may have in common
  int64_t rows_of_layer_;
  size_t micro_batch_ = 0;
  /// On the device: [cells + stored layers, experts] slots kept, by loop and layer of the core and by stored layer
  /// elsewhere; [cells, k + 1] tokens by their number of experts in common with the loop before; [loops + cells] sums
  /// over tokens of mean squares.
  Tensor kept_on_device_, overlaps_on_device_, squares_;
  std::vector<std::vector<Tensor>> last_choice_;  ///< [micro-batch][layer] index of the loop before
  std::vector<int64_t> stored_of_cell_;           ///< [cells] number of the stored layer; -1: dense, or not visited
  std::vector<int64_t> slots_;                    ///< [cells] chosen, kept or not
  std::vector<int64_t> load_, dropped_;
  std::vector<int64_t> stored_load_;        ///< [stored layers, model loops, experts]
  std::vector<int64_t> shared_, compared_;  ///< [loops, layers] common experts with the loop before; slots compared
  std::vector<double> square_;              ///< [loops] sum over tokens of the mean square
  std::vector<double> block_square_;        ///< [loops, layers] likewise before the block norm
  std::vector<int64_t> rows_;               ///< [loops] tokens summed
};

}  // namespace heddle
