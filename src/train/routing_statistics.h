// Counts of one global step, per loop and layer: what the run log and the balance bias need. An observer of the
// training forwards; each (micro-batch, loop, layer) is visited once, so nothing is counted twice. Counts are integers
// and exact at any layout.
#pragma once

#include <cstdint>
#include <vector>

#include "model/observer.h"

namespace heddle {

class RoutingStatistics : public ForwardObserver {
 public:
  RoutingStatistics(int64_t loops, int64_t layers, int64_t experts, double norm_eps);

  void begin_step(size_t micro_batches);
  void select_micro_batch(size_t index) { micro_batch_ = index; }  ///< whose forward comes next
  void on_block(const BlockView& view) override;
  void on_loop_end(int64_t loop, const Tensor& state, const Tensor& inverse_rms) override;

  /// Sums everything over all ranks. Collective; once per step, before reading.
  void reduce(Communicator& world);

  int64_t load(int64_t loop, int64_t layer, int64_t expert) const;
  const std::vector<int64_t>& loads() const { return load_; }       ///< [loops, layers, experts] slots that were kept
  const std::vector<int64_t>& dropped() const { return dropped_; }  ///< [loops, layers]
  std::vector<int64_t> layer_load(int64_t layer) const;             ///< [experts], summed over loops
  /// Mean over tokens of |top-k(t) and top-k(t+1)| / k: [loops - 1, layers].
  std::vector<double> overlap() const;
  /// Root mean square over all tokens and channels of the state before the loop-end norm: [loops].
  std::vector<double> state_rms() const;
  /// The same for the stream before the norm that ends each block: [loops, layers].
  std::vector<double> block_rms() const;

 private:
  size_t cell(int64_t loop, int64_t layer) const { return static_cast<size_t>(loop * layers_ + layer); }
  int64_t loops_, layers_, experts_;
  double norm_eps_;
  size_t micro_batch_ = 0;
  std::vector<std::vector<Tensor>> last_choice_;  ///< [micro-batch][layer] index of the loop before
  std::vector<int64_t> load_, dropped_;
  std::vector<int64_t> shared_, compared_;  ///< [loops, layers] common experts with the loop before; slots compared
  std::vector<double> square_;              ///< [loops] sum over tokens of the mean square
  std::vector<double> block_square_;        ///< [loops, layers] likewise before the block norm
  std::vector<int64_t> rows_;               ///< [loops] tokens summed
};

}  // namespace heddle
