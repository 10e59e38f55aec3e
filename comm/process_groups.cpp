#include "comm/process_groups.h"

#include <vector>

#include "support/narrow.h"

namespace heddle {

namespace {

/// `experts` 0: the number is not known, only the ranks are held against it.
void check_divisor(int ranks, int expert_parallel, int64_t experts) {
  if (expert_parallel > 0 && ranks % expert_parallel == 0 && experts % expert_parallel == 0) return;
  std::vector<int> valid;
  for (int n = 1; n <= ranks; ++n)
    if (ranks % n == 0 && experts % n == 0) valid.push_back(n);
  const std::string whole =
      experts > 0 ? fmt::format("{} experts and {} ranks", experts, ranks) : fmt::format("{} ranks", ranks);
  throw UsageError(
      fmt::format("expert_parallel {} does not divide {}; valid: {}", expert_parallel, whole, fmt::join(valid, ", ")),
      "set layout.expert_parallel, or start another number of ranks");
}

}  // namespace

void check_layout(int ranks, int expert_parallel, int64_t experts) {
  if (experts < 1) throw UsageError(fmt::format("a layout needs at least one expert, not {}", experts));
  check_divisor(ranks, expert_parallel, experts);
}

ProcessGroups::ProcessGroups(Communicator& world, int expert_parallel) : world_(world) {
  check_divisor(world.size(), expert_parallel, 0);
  expert_parallel_ = world.split(world.rank() / expert_parallel);
  expert_replicas_ = world.split(world.rank() % expert_parallel);
}

ProcessGroups::ProcessGroups(Communicator& world, std::unique_ptr<Communicator> expert_parallel,
                             std::unique_ptr<Communicator> expert_replicas)
    : world_(world), expert_parallel_(std::move(expert_parallel)), expert_replicas_(std::move(expert_replicas)) {}

ExpertRange ProcessGroups::owned_experts(int64_t experts) const {
  const int64_t count = div_exact(experts, expert_parallel_->size(), "experts over the expert-parallel ranks");
  return {count * expert_parallel_->rank(), count};
}

}  // namespace heddle
