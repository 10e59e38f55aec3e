#include "moe/capacity.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace heddle {

int64_t capacity_slots(double factor, int64_t tokens, int64_t k, int64_t experts) {
  const double slots = factor * static_cast<double>(tokens) * static_cast<double>(k) / static_cast<double>(experts);
  return std::max<int64_t>(1, static_cast<int64_t>(std::floor(slots)));
}

namespace {

/// Flags of the `capacity` largest weights; equal weights stay in the given order.
std::vector<uint8_t> keep_largest(const std::vector<float>& weights, int64_t capacity) {
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return weights[a] > weights[b]; });
  std::vector<uint8_t> keep(weights.size(), 0);
  const size_t kept = std::min(order.size(), static_cast<size_t>(capacity));
  for (size_t i = 0; i < kept; ++i) keep[order[i]] = 1;
  return keep;
}

}  // namespace

Tensor capacity_keep(const Kernels& kernels, Communicator& world, CapacityScope scope, double factor, int64_t experts,
                     const Tensor& index, const Tensor& weights) {
  const int64_t slots = index.count(), k = index.dim(1);
  const Tensor chosen = Tensor::empty({experts}, Purpose::kWorkspace, DType::kInt64);
  chosen.fill_zero();
  kernels.count_choices(slots, experts, index.i32(), nullptr, chosen.i64());
  std::vector<int64_t> totals = chosen.get<int64_t>();  // slots per expert, then tokens
  totals.push_back(index.dim(0));
  const bool global = scope == CapacityScope::kGlobal && world.size() > 1;
  if (global) world.all_reduce_sum(std::span<int64_t>(totals));
  const int64_t capacity = capacity_slots(factor, totals.back(), k, experts);
  const auto is_full = [&](int64_t expert) { return totals[static_cast<size_t>(expert)] > capacity; };
  if (std::none_of(totals.begin(), totals.end() - 1, [&](int64_t n) { return n > capacity; })) return {};

  Tensor keep = Tensor::empty(index.shape(), Purpose::kActivations, DType::kUint8);
  if (!global) {
    kernels.keep_largest(index.dim(0), k, experts, capacity, index.i32(), weights.f32(), keep.u8());
    return keep;
  }

  // Slots of every full expert in token order; expert e is judged by rank e % size, on the host.
  const std::vector<int32_t> choices = index.get<int32_t>();
  const std::vector<float> wanted = weights.get<float>();
  std::vector<uint8_t> kept_slots(choices.size(), 1);
  const int64_t ranks = world.size();
  std::vector<std::vector<int64_t>> of_expert(static_cast<size_t>(experts));
  for (size_t slot = 0; slot < choices.size(); ++slot)
    if (is_full(choices[slot])) of_expert[static_cast<size_t>(choices[slot])].push_back(static_cast<int64_t>(slot));

  std::vector<int64_t> counts_out, sent_slot, send(static_cast<size_t>(ranks), 0);
  std::vector<float> sent;
  const int64_t per_rank = (experts + ranks - 1) / ranks;
  for (int64_t judge = 0; judge < ranks; ++judge) {
    for (int64_t i = 0; i < per_rank; ++i) {
      const int64_t expert = i * ranks + judge;
      const bool any = expert < experts;
      counts_out.push_back(any ? static_cast<int64_t>(of_expert[expert].size()) : 0);
      if (!any) continue;
      for (const int64_t slot : of_expert[expert]) {
        sent.push_back(wanted[static_cast<size_t>(slot)]);
        sent_slot.push_back(slot);
        ++send[judge];
      }
    }
  }
  std::vector<int64_t> counts_in(counts_out.size());
  world.exchange_counts(counts_out, per_rank, counts_in);
  std::vector<int64_t> receive(static_cast<size_t>(ranks), 0);
  for (int64_t source = 0; source < ranks; ++source)
    for (int64_t i = 0; i < per_rank; ++i) receive[source] += counts_in[source * per_rank + i];
  const int64_t received = std::accumulate(receive.begin(), receive.end(), int64_t{0});
  std::vector<float> arrived(static_cast<size_t>(received));
  world.host().exchange_rows(sent.data(), send, arrived.data(), receive, sizeof(float));

  // Judge: an expert's slots in (rank, token) order, which is the order of the global batch.
  std::vector<uint8_t> verdict(static_cast<size_t>(received)), flags(sent.size());
  std::vector<int64_t> next(static_cast<size_t>(ranks), 0);
  for (int64_t source = 1; source < ranks; ++source) next[source] = next[source - 1] + receive[source - 1];
  for (int64_t i = 0; i < per_rank; ++i) {
    std::vector<float> values;
    std::vector<int64_t> places;
    for (int64_t source = 0; source < ranks; ++source) {
      for (int64_t j = 0; j < counts_in[source * per_rank + i]; ++j) {
        places.push_back(next[source]);
        values.push_back(arrived[next[source]++]);
      }
    }
    const std::vector<uint8_t> kept = keep_largest(values, capacity);
    for (size_t j = 0; j < places.size(); ++j) verdict[places[j]] = kept[j];
  }
  world.host().exchange_rows(verdict.data(), receive, flags.data(), send, sizeof(uint8_t));
  for (size_t i = 0; i < flags.size(); ++i) kept_slots[static_cast<size_t>(sent_slot[i])] = flags[i];
  keep.set<uint8_t>(kept_slots);
  return keep;
}

}  // namespace heddle
