#include "train/routing_statistics.h"

#include <algorithm>
#include <cmath>

namespace heddle {

RoutingStatistics::RoutingStatistics(const LoopedModel& model, int64_t loops)
    : model_(model),
      loops_(loops),
      layers_(model.config().layers),
      experts_(model.config().any_moe() ? model.config().moe.experts : 0),
      overlaps_(model.config().any_moe() ? model.config().moe.top_k + 1 : 0),
      rows_of_layer_(model.config().loops) {}

void RoutingStatistics::add_mean_squares(const Tensor& inverse_rms, const Tensor& state, int64_t to) const {
  double* const sum = squares_.f64() + to;
  const ModelConfig& config = model_.config();
  if (inverse_rms.defined())
    model_.kernels().add_mean_squares(inverse_rms.count(), static_cast<double>(config.norm_eps), inverse_rms.f32(),
                                      sum);
  else
    model_.kernels().add_squares(state.count(), 1 / static_cast<double>(config.hidden_size), state.reals(), sum);
}

void RoutingStatistics::begin_step(size_t micro_batches) {
  micro_batch_ = 0;
  last_choice_.assign(micro_batches, std::vector<Tensor>(static_cast<size_t>(layers_)));
  const int64_t rows = cells() + model_.stored_moe_layers();
  kept_on_device_ = Tensor::zeros({rows, experts_}, Purpose::kWorkspace, DType::kInt64);
  overlaps_on_device_ = Tensor::zeros({cells(), overlaps_}, Purpose::kWorkspace, DType::kInt64);
  squares_ = Tensor::zeros({loops_ + cells()}, Purpose::kWorkspace, DType::kFloat64);
  const auto count = static_cast<size_t>(cells());
  stored_of_cell_.assign(count, -1);
  slots_.assign(count, 0);
  compared_.assign(count, 0);
  rows_.assign(static_cast<size_t>(loops_), 0);
}

void RoutingStatistics::on_block(const BlockView& view) {
  if (view.place.stored_moe >= 0) count_choices(view);
  if (view.place.part == StackPart::kCore)
    add_mean_squares(view.inverse_rms, view.layer_state,
                     loops_ + static_cast<int64_t>(cell(view.place.loop, view.place.layer)));
}

void RoutingStatistics::count_choices(const BlockView& view) {
  const Kernels& k = model_.kernels();
  const bool core = view.place.part == StackPart::kCore;
  const Tensor& index = view.routing.index;
  const size_t at = core ? cell(view.place.loop, view.place.layer) : 0;
  const int64_t row = core ? static_cast<int64_t>(at) : cells() + view.place.stored_moe;
  k.count_choices(index.count(), experts_, index.i32(), view.routing.keep.u8(), kept_on_device_.rows(row, 1).i64());
  if (!core) return;
  stored_of_cell_[at] = view.place.stored_moe;
  slots_[at] += index.count();
  Tensor& last = last_choice_.at(micro_batch_)[static_cast<size_t>(view.place.layer)];
  if (view.place.loop > 0 && last.defined()) {
    k.count_overlaps(index.dim(0), index.dim(1), index.i32(), last.i32(),
                     overlaps_on_device_.rows(static_cast<int64_t>(at), 1).i64());
    compared_[at] += index.count();
  }
  last = index;
}

void RoutingStatistics::on_loop_end(int64_t loop, const Tensor& state, const Tensor& inverse_rms) {
  add_mean_squares(inverse_rms, state, loop);
  rows_[static_cast<size_t>(loop)] += state.dim(0);
}

void RoutingStatistics::read_device() {
  const auto experts = static_cast<size_t>(experts_), count = static_cast<size_t>(cells());
  const std::vector<int64_t> kept = kept_on_device_.get<int64_t>();
  const std::vector<double> squares = squares_.get<double>();
  const std::vector<int64_t> tokens = overlaps_on_device_.get<int64_t>();
  shared_.assign(count, 0);
  for (size_t at = 0; at < count; ++at)
    for (int64_t common = 0; common < overlaps_; ++common)
      shared_[at] += common * tokens[at * static_cast<size_t>(overlaps_) + static_cast<size_t>(common)];
  kept_on_device_ = overlaps_on_device_ = squares_ = {};
  square_.assign(squares.begin(), squares.begin() + loops_);
  block_square_.assign(squares.begin() + loops_, squares.end());
  load_.assign(kept.begin(), kept.begin() + cells() * experts_);
  stored_load_.assign(static_cast<size_t>(model_.stored_moe_layers() * rows_of_layer_ * experts_), 0);
  const auto add_to_stored = [&](size_t row, int64_t stored, int64_t loop) {
    const auto to = static_cast<size_t>(stored * rows_of_layer_ + std::min(loop, rows_of_layer_ - 1)) * experts;
    for (size_t e = 0; e < experts; ++e) stored_load_[to + e] += kept[row * experts + e];
  };
  dropped_ = slots_;
  for (size_t at = 0; at < count; ++at) {
    if (stored_of_cell_[at] < 0) continue;
    add_to_stored(at, stored_of_cell_[at], static_cast<int64_t>(at) / layers_);
    for (size_t e = 0; e < experts; ++e) dropped_[at] -= load_[at * experts + e];
  }
  for (int64_t stored = 0; stored < model_.stored_moe_layers(); ++stored)
    add_to_stored(count + static_cast<size_t>(stored), stored, 0);
}

void RoutingStatistics::reduce(Communicator& world) {
  last_choice_.clear();
  read_device();
  if (world.size() == 1) return;
  std::vector<int64_t> all;
  const auto lists = {&load_, &stored_load_, &dropped_, &shared_, &compared_, &rows_};
  for (const std::vector<int64_t>* list : lists) all.insert(all.end(), list->begin(), list->end());
  world.all_reduce_sum(std::span<int64_t>(all));
  auto next = all.begin();
  for (std::vector<int64_t>* list : lists) {
    std::copy_n(next, list->size(), list->begin());
    next += static_cast<std::ptrdiff_t>(list->size());
  }
  world.all_reduce_sum(std::span<double>(square_));
  world.all_reduce_sum(std::span<double>(block_square_));
}

int64_t RoutingStatistics::load(int64_t loop, int64_t layer, int64_t expert) const {
  return load_.at(cell(loop, layer) * static_cast<size_t>(experts_) + static_cast<size_t>(expert));
}

std::vector<int64_t> RoutingStatistics::stored_load(int64_t stored, int64_t row) const {
  std::vector<int64_t> sum(static_cast<size_t>(experts_), 0);
  for (int64_t r = row < 0 ? 0 : row; r < (row < 0 ? rows_of_layer_ : row + 1); ++r)
    for (size_t e = 0; e < sum.size(); ++e)
      sum[e] += stored_load_.at(static_cast<size_t>((stored * rows_of_layer_ + r) * experts_) + e);
  return sum;
}

std::vector<double> RoutingStatistics::overlap() const {
  std::vector<double> result;
  for (size_t at = static_cast<size_t>(layers_); at < shared_.size(); ++at)
    result.push_back(compared_[at] == 0 ? std::nan("")
                                        : static_cast<double>(shared_[at]) / static_cast<double>(compared_[at]));
  return result;
}

std::vector<double> RoutingStatistics::block_rms() const {
  std::vector<double> result;
  for (size_t at = 0; at < block_square_.size(); ++at) {
    const int64_t rows = rows_[at / static_cast<size_t>(layers_)];
    result.push_back(rows == 0 ? std::nan("") : std::sqrt(block_square_[at] / static_cast<double>(rows)));
  }
  return result;
}

std::vector<double> RoutingStatistics::state_rms() const {
  std::vector<double> result;
  for (size_t loop = 0; loop < square_.size(); ++loop)
    result.push_back(rows_[loop] == 0 ? std::nan("") : std::sqrt(square_[loop] / static_cast<double>(rows_[loop])));
  return result;
}

}  // namespace heddle
