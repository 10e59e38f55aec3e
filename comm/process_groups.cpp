#include "comm/process_groups.h"

#include <vector>

#include "support/narrow.h"

namespace heddle {

void check_layout(int ranks, int expert_parallel, int64_t experts) {
  if (expert_parallel > 0 && ranks % expert_parallel == 0 && experts % expert_parallel == 0) return;
  std::vector<int> valid;
  for (int n = 1; n <= ranks; ++n)
    if (ranks % n == 0 && experts % n == 0) valid.push_back(n);
  throw UsageError(fmt::format("layout.expert_parallel = {} does not divide both {} ranks and {} experts", expert_parallel,
                               ranks, experts),
                   fmt::format("valid: {}", fmt::join(valid, ", ")));
}

ProcessGroups::ProcessGroups(Communicator& world, int expert_parallel) : world_(world) {
  check_layout(world.size(), expert_parallel, expert_parallel);
  expert_parallel_ = world.split(world.rank() / expert_parallel);
  expert_replicas_ = world.split(world.rank() % expert_parallel);
}

ExpertRange ProcessGroups::owned_experts(int64_t experts) const {
  const int64_t count = div_exact(experts, expert_parallel_->size(), "experts over the expert-parallel ranks");
  return {count * expert_parallel_->rank(), count};
}

}  // namespace heddle
