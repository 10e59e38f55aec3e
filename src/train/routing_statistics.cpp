#include "train/routing_statistics.h"

#include <algorithm>
#include <cmath>

namespace heddle {

RoutingStatistics::RoutingStatistics(const LoopedModel& model, int64_t loops)
    : model_(model),
      loops_(loops),
      layers_(model.config().layers),
      experts_(model.config().any_moe() ? model.config().moe.experts : 0),
      rows_of_layer_(model.config().loops) {}

double RoutingStatistics::mean_squares(const Tensor& inverse_rms, const Tensor& state) const {
  if (!inverse_rms.defined())
    return model_.kernels().sum_of_squares(state.count(), state.reals()) /
           static_cast<double>(model_.config().hidden_size);
  double sum = 0;
  for (const float inverse : inverse_rms.get<float>()) {
    const double value = static_cast<double>(inverse);
    sum += 1 / (value * value) - model_.config().norm_eps;
  }
  return sum;
}

void RoutingStatistics::begin_step(size_t micro_batches) {
  const size_t cells = static_cast<size_t>(loops_ * layers_);
  micro_batch_ = 0;
  last_choice_.assign(micro_batches, std::vector<std::vector<int32_t>>(static_cast<size_t>(layers_)));
  load_.assign(cells * static_cast<size_t>(experts_), 0);
  stored_load_.assign(static_cast<size_t>(model_.stored_moe_layers() * rows_of_layer_ * experts_), 0);
  dropped_.assign(cells, 0);
  shared_.assign(cells, 0);
  compared_.assign(cells, 0);
  square_.assign(static_cast<size_t>(loops_), 0);
  block_square_.assign(cells, 0);
  rows_.assign(static_cast<size_t>(loops_), 0);
}

void RoutingStatistics::on_block(const BlockView& view) {
  if (view.place.stored_moe >= 0) count_choices(view);
  if (view.place.part == StackPart::kCore)
    block_square_[cell(view.place.loop, view.place.layer)] += mean_squares(view.inverse_rms, view.layer_state);
}

void RoutingStatistics::count_choices(const BlockView& view) {
  const bool core = view.place.part == StackPart::kCore;
  const Tensor& index = view.routing.index;
  const auto k = static_cast<size_t>(index.dim(1));
  std::vector<int32_t> chosen = index.get<int32_t>();
  const Tensor& kept = view.routing.keep;
  const std::vector<uint8_t> keep = kept.defined() ? kept.get<uint8_t>() : std::vector<uint8_t>();
  std::vector<int64_t> load(static_cast<size_t>(experts_), 0);
  int64_t dropped = 0;
  for (size_t slot = 0; slot < chosen.size(); ++slot) {
    if (keep.empty() || keep[slot] != 0)
      ++load[static_cast<size_t>(chosen[slot])];
    else
      ++dropped;
  }
  const auto add_to = [&](std::vector<int64_t>& sums, int64_t row) {
    for (size_t e = 0; e < load.size(); ++e) sums[static_cast<size_t>(row * experts_) + e] += load[e];
  };
  const int64_t row = core ? std::min(view.place.loop, rows_of_layer_ - 1) : 0;
  add_to(stored_load_, view.place.stored_moe * rows_of_layer_ + row);
  if (!core) return;
  const size_t at = cell(view.place.loop, view.place.layer);
  add_to(load_, static_cast<int64_t>(at));
  dropped_[at] += dropped;

  std::vector<int32_t>& last = last_choice_.at(micro_batch_)[static_cast<size_t>(view.place.layer)];
  if (view.place.loop > 0 && !last.empty()) {
    int64_t common = 0;
    for (size_t token = 0; token < chosen.size(); token += k)
      for (size_t i = token; i < token + k; ++i)
        for (size_t j = token; j < token + k; ++j) common += chosen[i] == last[j];
    shared_[at] += common;
    compared_[at] += static_cast<int64_t>(chosen.size());
  }
  last = std::move(chosen);
}

void RoutingStatistics::on_loop_end(int64_t loop, const Tensor& state, const Tensor& inverse_rms) {
  square_[static_cast<size_t>(loop)] += mean_squares(inverse_rms, state);
  rows_[static_cast<size_t>(loop)] += state.dim(0);
}

void RoutingStatistics::reduce(Communicator& world) {
  last_choice_.clear();
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
