// ZeRO-1: which rank keeps the optimizer state of which elements, and updates them. Replicated parameters are split
// over all ranks, experts over the ranks that hold the same experts. A shard is a contiguous stretch of an arena
// (autograd/parameter.h), so that neighbours still travel in one call. It is cut at borders of units: whole matrices
// where an update wants them, else blocks of a fixed size. A norm summed block by block within units has the same bits
// with and without shards.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "autograd/parameter.h"
#include "comm/process_groups.h"

namespace heddle {

class Shards {
 public:
  /// Elements of one block of a unit; the last one of a unit is shorter.
  static constexpr int64_t kBlock = 65536;
  /// Elements of a parameter that one rank must own together; 0: a block.
  using UnitOf = std::function<int64_t(const Parameter&)>;

  /// enabled false: every rank keeps everything.
  Shards(const ParameterSet& parameters, ProcessGroups& groups, bool enabled, int64_t block = kBlock,
         const UnitOf& unit_of = {});

  bool enabled() const { return enabled_; }
  int64_t block() const { return block_; }
  /// Elements of each unit of p, which start at its multiples; the last one may be shorter.
  int64_t unit(const Parameter& p) const;

  /// Elements of the local part of p that this rank updates; possibly none.
  ArenaRange owned(const Parameter& p) const;

  /// Ranks among which the elements of this sharing are split and summed.
  Communicator& group(Sharing sharing) const;
  /// How many elements of an arena range belong to each rank of the group.
  std::vector<int64_t> counts(Sharing sharing, ArenaRange range) const;

 private:
  const ParameterSet& parameters_;
  ProcessGroups& groups_;
  bool enabled_;
  int64_t block_;
  std::array<std::vector<int64_t>, 2> units_;    ///< per arena: of its parameters, by place
  std::array<std::vector<int64_t>, 2> borders_;  ///< per arena: ranks + 1 ascending offsets
};

}  // namespace heddle
