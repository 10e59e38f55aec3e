#include "optim/gradients.h"

#include <cmath>

#include "support/narrow.h"

namespace heddle {

namespace {

constexpr Sharing kSharings[] = {Sharing::kReplicated, Sharing::kExpert};

/// Sums of squares of the blocks of all units of all gradients of a sharing, in arena order; with shards they are
/// gathered from their owners.
double sum_of_blocks(ParameterSet& parameters, Sharing sharing, const Shards& shards, const Kernels& kernels) {
  // Blocks of other owners are empty and count 0, so that adding the ranks' lists is exact.
  std::vector<Stretch> blocks;
  for (const Parameter& p : parameters.all()) {
    if (p.sharing != sharing || !p.has_gradient) continue;
    const ArenaRange owned = shards.owned(p);
    for (int64_t start = 0; start < p.gradient.count(); start += shards.unit(p)) {
      const int64_t end = std::min(start + shards.unit(p), p.gradient.count());
      const bool mine = start >= owned.first && start < owned.end();
      for (int64_t first = start; first < end; first += shards.block()) {
        const int64_t count = std::min(shards.block(), end - first);
        blocks.push_back({p.gradient.f32() + first, mine ? count : 0});
      }
    }
  }
  std::vector<double> sums(blocks.size());
  kernels.sums_of_squares(static_cast<int64_t>(blocks.size()), blocks.data(), sums.data());
  if (shards.enabled()) shards.group(sharing).all_reduce_sum(std::span<double>(sums));
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace

void GradientReduction::used(Parameter& p) {
  ++uses_[&p];
}

void GradientReduction::unwound(Parameter& p) {
  if (--uses_.at(&p) > 0 || !p.has_gradient || shards_.group(p.sharing).size() == 1) return;
  ready_.insert(&p);
  ready_bytes_ += p.gradient.bytes();
  if (ready_bytes_ >= bucket_bytes_) begin();
}

void GradientReduction::begin() {
  for (const Sharing sharing : kSharings) {
    Communicator& group = shards_.group(sharing);
    for (const ArenaRange run : parameters_.runs(sharing, [this](const Parameter& p) { return ready_.contains(&p); })) {
      const std::span<float> values = parameters_.gradients(sharing, run);
      under_way_.push_back(shards_.enabled() ? group.start_reduce_scatter_sum(values, shards_.counts(sharing, run))
                                             : group.start_all_reduce_sum(values));
    }
  }
  for (Parameter& p : parameters_.all()) p.summed = p.summed || ready_.contains(&p);
  ready_.clear();
  ready_bytes_ = 0;
}

void GradientReduction::finish() {
  for (const Parameter& p : parameters_.all())
    if (p.has_gradient && !p.summed && shards_.group(p.sharing).size() > 1) ready_.insert(&p);
  begin();
  for (const auto& sum : under_way_) sum->finish();
  under_way_.clear();
  uses_.clear();
}

void reduce_gradients(ParameterSet& parameters, const Shards& shards) {
  GradientReduction(parameters, shards, 0).finish();
}

double gradient_norm(ParameterSet& parameters, ProcessGroups& groups, const Shards& shards, const Kernels& kernels) {
  const double replicated = sum_of_blocks(parameters, Sharing::kReplicated, shards, kernels);
  double experts = sum_of_blocks(parameters, Sharing::kExpert, shards, kernels);
  if (groups.expert_parallel().size() > 1) groups.expert_parallel().all_reduce_sum(std::span<double>(&experts, 1));
  return std::sqrt(replicated + experts);
}

void gather_weights(ParameterSet& parameters, const Shards& shards) {
  if (!shards.enabled()) return;
  for (const Sharing sharing : kSharings) {
    Communicator& group = shards.group(sharing);
    if (group.size() == 1) continue;
    for (const ArenaRange run : parameters.gradient_runs(sharing))
      group.all_gather_shards(parameters.values(sharing, run), shards.counts(sharing, run));
  }
}

}  // namespace heddle
