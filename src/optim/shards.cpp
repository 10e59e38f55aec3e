#include "optim/shards.h"

#include <algorithm>

#include "support/narrow.h"

namespace heddle {

namespace {

/// Borders of `ranks` shards: the unit starts nearest to equal parts, the earlier of two equally near.
std::vector<int64_t> borders_of(const ParameterSet& parameters, Sharing sharing, int64_t ranks,
                                const std::vector<int64_t>& units) {
  const int64_t total = parameters.arena_count(sharing);
  std::vector<int64_t> borders(1, 0);
  int64_t before = 0;  // the last start that is not above the next border
  const auto visit = [&](int64_t start) {
    while (static_cast<int64_t>(borders.size()) < ranks) {
      const int64_t equal = div_up(total * static_cast<int64_t>(borders.size()), ranks);
      if (start <= equal) break;
      borders.push_back(start - equal < equal - before ? start : before);
    }
    before = start;
  };
  for (const Parameter& p : parameters.all()) {
    if (p.sharing != sharing) continue;
    const ArenaRange range = parameters.range(p);
    for (int64_t start = range.first; start < range.end(); start += units[p.place]) visit(start);
  }
  visit(total);
  while (static_cast<int64_t>(borders.size()) <= ranks) borders.push_back(total);
  return borders;
}

}  // namespace

Shards::Shards(const ParameterSet& parameters, ProcessGroups& groups, bool enabled, int64_t block,
               const UnitOf& unit_of)
    : parameters_(parameters), groups_(groups), enabled_(enabled), block_(block) {
  for (const Parameter& p : parameters.all()) {
    const int64_t whole = unit_of ? unit_of(p) : 0;
    units_[static_cast<size_t>(p.sharing)].push_back(whole > 0 ? whole : block);
  }
  for (const Sharing sharing : {Sharing::kReplicated, Sharing::kExpert}) {
    const auto arena = static_cast<size_t>(sharing);
    borders_[arena] = borders_of(parameters, sharing, group(sharing).size(), units_[arena]);
  }
}

int64_t Shards::unit(const Parameter& p) const {
  return units_[static_cast<size_t>(p.sharing)].at(p.place);
}

Communicator& Shards::group(Sharing sharing) const {
  return sharing == Sharing::kExpert ? groups_.expert_replicas() : groups_.world();
}

ArenaRange Shards::owned(const Parameter& p) const {
  const ArenaRange range = parameters_.range(p);
  if (!enabled_) return {0, range.count};
  const std::vector<int64_t>& borders = borders_[static_cast<size_t>(p.sharing)];
  const auto rank = static_cast<size_t>(group(p.sharing).rank());
  const int64_t first = std::clamp(borders[rank], range.first, range.end());
  const int64_t end = std::clamp(borders[rank + 1], range.first, range.end());
  return {first - range.first, end - first};
}

std::vector<int64_t> Shards::counts(Sharing sharing, ArenaRange range) const {
  const std::vector<int64_t>& borders = borders_[static_cast<size_t>(sharing)];
  std::vector<int64_t> counts;
  for (size_t r = 0; r + 1 < borders.size(); ++r)
    counts.push_back(std::clamp(borders[r + 1], range.first, range.end()) -
                     std::clamp(borders[r], range.first, range.end()));
  return counts;
}

}  // namespace heddle
