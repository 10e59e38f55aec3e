// A closer look at one global step: what the loops choose and what they would choose, and how the state moves
// (docs/run_log.md, /statistics). An observer of the training forwards like RoutingStatistics; a step that is not
// looked at goes without. Choices are counted over all tokens, exactly at any layout; states are compared on every
// stride-th token of a sequence. Sums stay where the tensors are until the step is over.
#pragma once

#include <vector>

#include "analysis/run_log.h"
#include "model/looped_model.h"

namespace heddle {

class LoopStatistics : public ForwardObserver {
 public:
  /// loops: the most that a step will run.
  LoopStatistics(const LoopedModel& model, int64_t loops, int64_t stride);

  void begin_step(size_t micro_batches, int64_t sequence);
  void select_micro_batch(size_t index) { micro_batch_ = index; }  ///< whose forward comes next
  void on_prelude(const Tensor& state) override;
  void on_attention(const VisitPlace& place, const Tensor& branch) override;
  void on_experts_input(const VisitPlace& place, const Tensor& input) override;
  void on_feed_forward(const VisitPlace& place, const Tensor& branch) override;
  void on_block(const BlockView& view) override;
  void on_loop_end(int64_t loop, const Tensor& state, const Tensor& inverse_rms) override;

  /// Sums over all ranks, and frees what the step kept: all of the record but its step. Collective.
  StatisticsRecord finish(Communicator& world);

 private:
  enum Histogram { kFlipped, kRouterAgreement, kStateAgreement, kHistograms };
  enum Sum { kEntropy, kRouterZ, kAttention, kFeedForward, kCarry, kSums };
  static constexpr int64_t kBack = 3, kCompared = kBack + 1;  ///< states before, and the embedding
  static constexpr int64_t kComparison = 4;                   ///< numbers of one comparison (kernels/statistics.h)

  /// What a micro-batch keeps from loop to loop.
  struct Kept {
    Tensor embedding;                    ///< sampled, [M,D]
    std::vector<Tensor> last;            ///< sampled states, the newest first; the embedding stands before the first
    std::vector<Tensor> index, weights;  ///< [layers] of [loops, N, k]
  };
  Kept& kept() { return kept_.at(micro_batch_); }
  static bool in_core(const VisitPlace& place) { return place.part == StackPart::kCore; }
  int64_t cell(int64_t loop, int64_t layer) const { return loop * layers_ + layer; }
  int64_t cells() const { return loops_ * layers_; }
  int64_t pair(int64_t later, int64_t earlier, int64_t layer) const {
    return (later * loops_ + earlier) * layers_ + layer;
  }
  int64_t pairs() const { return loops_ * loops_ * layers_; }
  int64_t* histogram(Histogram of, int64_t cell) const;
  double* sum(Sum of, int64_t cell) const;
  Tensor sampled(const Tensor& state);
  void add_branch(Sum of, const VisitPlace& place, const Tensor& branch) const;
  void compare_choices(const BlockView& view);
  void average_choices(const std::vector<int64_t>& counts, const std::vector<double>& sums,
                       const std::vector<double>& maxima, StatisticsRecord& record) const;
  void average_states(const std::vector<double>& sums, StatisticsRecord& record) const;
  void compare_routers(StatisticsRecord& record) const;

  const LoopedModel& model_;
  int64_t loops_, layers_, experts_, top_k_, width_, stride_;
  size_t micro_batch_ = 0;
  std::vector<Kept> kept_;
  RouterDecision own_;  ///< of the visit that goes on
  Tensor before_;       ///< what the router of the loop before chooses in it
  int64_t sequence_ = 0;
  Tensor sampled_rows_;  ///< 0, stride, 2 stride, ... of every sequence of the largest micro-batch so far
  Tensor counts_;        ///< i64: histograms of pairs and of cells, [k + 1] each; fresh experts by cell
  Tensor sums_;          ///< f64: weight overlap by pair, Sum by cell, comparisons by loop, unit rows by loop
  Tensor maxima_;        ///< f32, [cells]
  std::vector<int64_t> routed_, passed_, carried_;  ///< [cells] tokens
  std::vector<int64_t> looked_;                     ///< [loops] sampled tokens
};

}  // namespace heddle
