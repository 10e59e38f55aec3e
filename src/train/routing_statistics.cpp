#include "train/routing_statistics.h"

#include <cmath>

namespace heddle {

namespace {

/// Sum over tokens of the mean square that a norm divided by: 1 / inverse^2 - eps.
double sum_of_mean_squares(const Tensor& inverse_rms, double eps) {
  double sum = 0;
  for (const float inverse : inverse_rms.floats()) {
    const double value = static_cast<double>(inverse);
    sum += 1 / (value * value) - eps;
  }
  return sum;
}

}  // namespace

RoutingStatistics::RoutingStatistics(int64_t loops, int64_t layers, int64_t experts, double norm_eps)
    : loops_(loops), layers_(layers), experts_(experts), norm_eps_(norm_eps) {}

void RoutingStatistics::begin_step(size_t micro_batches) {
  const size_t cells = static_cast<size_t>(loops_ * layers_);
  micro_batch_ = 0;
  last_choice_.assign(micro_batches, std::vector<Tensor>(static_cast<size_t>(layers_)));
  load_.assign(cells * static_cast<size_t>(experts_), 0);
  dropped_.assign(cells, 0);
  shared_.assign(cells, 0);
  compared_.assign(cells, 0);
  square_.assign(static_cast<size_t>(loops_), 0);
  block_square_.assign(cells, 0);
  rows_.assign(static_cast<size_t>(loops_), 0);
}

void RoutingStatistics::on_block(const BlockView& view) {
  const size_t at = cell(view.loop, view.layer);
  const Tensor& index = view.routing.index;
  const int64_t slots = index.count(), k = index.dim(1);
  const int32_t* const chosen = index.i32();
  const uint8_t* const keep = view.routing.keep.u8();
  int64_t* const load = load_.data() + at * static_cast<size_t>(experts_);
  for (int64_t slot = 0; slot < slots; ++slot) {
    if (keep == nullptr || keep[slot] != 0)
      ++load[chosen[slot]];
    else
      ++dropped_[at];
  }

  Tensor& last = last_choice_.at(micro_batch_)[static_cast<size_t>(view.layer)];
  if (view.loop > 0 && last.defined()) {
    const int32_t* const before = last.i32();
    int64_t common = 0;
    for (int64_t row = 0; row < slots; row += k)
      for (int64_t i = row; i < row + k; ++i)
        for (int64_t j = row; j < row + k; ++j) common += chosen[i] == before[j];
    shared_[at] += common;
    compared_[at] += slots;
  }
  last = index;
  block_square_[at] += sum_of_mean_squares(view.inverse_rms, norm_eps_);
}

void RoutingStatistics::on_loop_end(int64_t loop, const Tensor& /*state*/, const Tensor& inverse_rms) {
  square_[static_cast<size_t>(loop)] += sum_of_mean_squares(inverse_rms, norm_eps_);
  rows_[static_cast<size_t>(loop)] += inverse_rms.count();
}

void RoutingStatistics::reduce(Communicator& world) {
  last_choice_.clear();
  if (world.size() == 1) return;
  std::vector<int64_t> all;
  const auto lists = {&load_, &dropped_, &shared_, &compared_, &rows_};
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

std::vector<int64_t> RoutingStatistics::layer_load(int64_t layer) const {
  std::vector<int64_t> sum(static_cast<size_t>(experts_), 0);
  for (int64_t loop = 0; loop < loops_; ++loop)
    for (int64_t e = 0; e < experts_; ++e) sum[static_cast<size_t>(e)] += load(loop, layer, e);
  return sum;
}

std::vector<double> RoutingStatistics::overlap() const {
  std::vector<double> result;
  for (size_t at = static_cast<size_t>(layers_); at < shared_.size(); ++at)
    result.push_back(compared_[at] == 0 ? 0 : static_cast<double>(shared_[at]) / static_cast<double>(compared_[at]));
  return result;
}

std::vector<double> RoutingStatistics::block_rms() const {
  std::vector<double> result;
  for (size_t at = 0; at < block_square_.size(); ++at) {
    const int64_t rows = rows_[at / static_cast<size_t>(layers_)];
    result.push_back(rows == 0 ? 0 : std::sqrt(block_square_[at] / static_cast<double>(rows)));
  }
  return result;
}

std::vector<double> RoutingStatistics::state_rms() const {
  std::vector<double> result;
  for (size_t loop = 0; loop < square_.size(); ++loop)
    result.push_back(rows_[loop] == 0 ? 0 : std::sqrt(square_[loop] / static_cast<double>(rows_[loop])));
  return result;
}

}  // namespace heddle
