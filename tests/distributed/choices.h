// Which experts the rows of a global batch choose on this rank, how far each choice is from another one, and where two
// layouts differ.
#pragma once

#include <algorithm>
#include <limits>

#include "tests/train/tiny_training.h"

namespace heddle {

/// Sets of experts chosen for the rows of the global batch that a rank holds, by (row, visit, position) with visits in
/// their order, and the smallest distance between the worst chosen and the best other expert.
class Choices : public ForwardObserver {
 public:
  Choices(Training& training, int64_t step) : training_(training) {
    of_row_.resize(static_cast<size_t>(training.plan.global_batch));
    gaps_of_row_.resize(of_row_.size());
    const ScopedAllocator scope(training.memory);
    const std::vector<TokenBatch> batches = training.batches(step);
    for (size_t i = 0; i < batches.size(); ++i) {
      range_ = training.rows[i];
      Tape tape(training.model.kernels(), Tape::Mode::kForwardOnly);
      LoopedModel::Options options;
      options.observer = this;
      visits_.clear();
      const Variable embedding = training.model.embed(tape, batches[i], options);
      LoopState state = training.model.start(batches[i], embedding);
      training.model.run_loops(tape, batches[i], embedding, 0, training.loops.loops(step), options, state);
      training.model.read_out(tape, batches[i], embedding, state, options);
    }
  }

  void on_block(const BlockView& view) override {
    if (view.place.stored_moe < 0) return;
    visits_.push_back(view.place);
    const Tensor index = view.routing.index.on_host(), scores = view.routing.scores.on_host();
    const int64_t k = index.dim(1), experts = scores.dim(1);
    const Tensor biases = training_.model.balance_bias(view.place.stored_moe).on_host();
    const int64_t bias_row = std::min(view.place.loop, biases.count() / experts - 1);
    const float* const bias = biases.f32() + bias_row * experts;
    for (int64_t r = 0; r < range_.count; ++r) {
      const int64_t slots = index.count() / range_.count;
      std::vector<int32_t>& list = of_row_[static_cast<size_t>(range_.first + r)];
      std::vector<float>& gaps = gaps_of_row_[static_cast<size_t>(range_.first + r)];
      for (int64_t slot = r * slots; slot < (r + 1) * slots; slot += k) {
        list.insert(list.end(), index.i32() + slot, index.i32() + slot + k);
        std::sort(list.end() - k, list.end());
        gaps.push_back(gap(scores.f32() + slot / k * experts, bias, experts, k));
        smallest_gap_ = std::min(smallest_gap_, gaps.back());
      }
    }
    note_capacity_gaps(index, scores);
  }

  const std::vector<int32_t>& of_row(int64_t row) const { return of_row_[static_cast<size_t>(row)]; }
  int64_t count() const {
    int64_t total = 0;
    for (const std::vector<float>& gaps : gaps_of_row_) total += static_cast<int64_t>(gaps.size());
    return total;
  }

  /// The first choice of a row that differs, in words.
  std::string difference(const Choices& expected, int64_t row) const {
    const ModelConfig& c = training_.plan.model;
    const std::vector<int32_t>&mine = of_row(row), &theirs = expected.of_row(row);
    const auto k = static_cast<size_t>(c.moe.top_k);
    if (mine.size() != theirs.size()) return fmt::format("{} slots against {}", mine.size(), theirs.size());
    for (size_t at = 0; at < mine.size(); at += k) {
      const std::vector<int32_t> a(mine.begin() + at, mine.begin() + at + k),
          b(theirs.begin() + at, theirs.begin() + at + k);
      const auto choice = static_cast<int64_t>(at / k);
      if (a == b) continue;
      const VisitPlace& visit = visits_.at(static_cast<size_t>(choice / training_.plan.sequence));
      return fmt::format("{}, loop {}, position {}: experts {} against {}, gap {:.3g}",
                         training_.model.moe_layer_name(visit.stored_moe), visit.loop, choice % training_.plan.sequence,
                         fmt::join(a, " "), fmt::join(b, " "),
                         expected.gaps_of_row_[static_cast<size_t>(row)][static_cast<size_t>(choice)]);
    }
    return "none";
  }

  float smallest_gap() const { return smallest_gap_; }
  /// Smallest distance between the last weight that an expert over its capacity keeps and the first that it drops;
  /// only of a model that sees all tokens in one micro-batch.
  float smallest_capacity_gap() const { return smallest_capacity_gap_; }

 private:
  static float gap(const float* scores, const float* bias, int64_t experts, int64_t k) {
    std::vector<float> values;
    for (int64_t e = 0; e < experts; ++e) values.push_back(scores[e] + bias[e]);
    std::sort(values.rbegin(), values.rend());
    if (k == experts) return std::numeric_limits<float>::infinity();
    return values[static_cast<size_t>(k - 1)] - values[static_cast<size_t>(k)];
  }

  void note_capacity_gaps(const Tensor& index, const Tensor& scores) {
    const MoeConfig& moe = training_.plan.model.moe;
    if (moe.capacity_factor <= 0 || training_.groups.world().size() > 1) return;
    const int64_t k = index.dim(1);
    std::vector<std::vector<float>> of_expert(static_cast<size_t>(moe.experts));
    for (int64_t n = 0; n < index.dim(0); ++n) {
      float sum = 0;
      const auto score = [&](int64_t j) { return scores.f32()[n * moe.experts + index.i32()[n * k + j]]; };
      for (int64_t j = 0; j < k; ++j) sum += score(j);
      for (int64_t j = 0; j < k; ++j) of_expert[static_cast<size_t>(index.i32()[n * k + j])].push_back(score(j) / sum);
    }
    const auto capacity = static_cast<size_t>(capacity_slots(moe.capacity_factor, index.dim(0), k, moe.experts));
    for (std::vector<float>& weights : of_expert) {
      if (weights.size() <= capacity) continue;
      std::sort(weights.rbegin(), weights.rend());
      smallest_capacity_gap_ = std::min(smallest_capacity_gap_, weights[capacity - 1] - weights[capacity]);
    }
  }

  Training& training_;
  RowRange range_;
  std::vector<VisitPlace> visits_;  ///< of one micro-batch
  std::vector<std::vector<int32_t>> of_row_;
  std::vector<std::vector<float>> gaps_of_row_;  ///< beside every k numbers of of_row_
  float smallest_gap_ = std::numeric_limits<float>::infinity();
  float smallest_capacity_gap_ = std::numeric_limits<float>::infinity();
};

}  // namespace heddle
