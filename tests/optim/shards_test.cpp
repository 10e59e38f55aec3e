// Where shards are cut: at borders of units, as near to equal parts as they allow.
#include <gtest/gtest.h>

#include <numeric>

#include "comm/dry_communicator.h"
#include "optim/optimizer.h"

namespace heddle {
namespace {

/// Elements that each of `ranks` ranks owns of every parameter.
std::vector<std::vector<int64_t>> owned(const ParameterSet& set, int ranks, const OptimizerConfig& config) {
  std::vector<std::vector<int64_t>> counts;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto world = make_dry_communicator(rank, ranks);
    ProcessGroups groups(*world, make_dry_communicator(0, 1), make_dry_communicator(rank, ranks));
    const Shards shards(set, groups, true, config.zero_block,
                        [&](const Parameter& p) { return config.by_matrix(p) ? matrices_of(p).unit() : 0; });
    counts.emplace_back();
    for (const Parameter& p : set.all()) counts.back().push_back(shards.owned(p).count);
  }
  return counts;
}

using Counts = std::vector<std::vector<int64_t>>;

TEST(Shards, CutAtBlocksForAdamwAndAtMatricesForMuon) {
  ParameterSet set;
  set.add_experts("experts", {5, 8, 4}, 0, 5);
  OptimizerConfig config;
  config.zero_block = 16;
  EXPECT_EQ(owned(set, 4, config), (Counts{{32}, {48}, {32}, {48}}));
  config.name = "muon";
  EXPECT_EQ(owned(set, 4, config), (Counts{{32}, {32}, {64}, {32}}));
}

TEST(Shards, PiecesAlongColumnsStayTogetherAndPiecesAlongRowsDoNot) {
  ParameterSet set;
  for (const int axis : {0, 1}) {
    Parameter& p = set.add(axis == 0 ? "rows" : "columns", {8, 16});
    p.pieces = 4;
    p.piece_axis = axis;
  }
  OptimizerConfig config;
  config.name = "muon";
  EXPECT_EQ(owned(set, 4, config), (Counts{{64, 0}, {64, 0}, {0, 0}, {0, 128}}));
}

TEST(Shards, TakeTheNearerBorder) {
  // Two matrices of 7 and 5 parts on two ranks: the border before the first one is nearer to the middle than none.
  ParameterSet set;
  set.add("a", {7, 16});
  set.add("b", {5, 16});
  OptimizerConfig config;
  config.name = "muonh";
  EXPECT_EQ(owned(set, 2, config), (Counts{{112, 0}, {0, 80}}));
}

TEST(Shards, EveryElementHasOneOwner) {
  ParameterSet set;
  set.add("a", {3, 5});
  set.add("gain", {7}).role = Role::kVector;
  set.add_experts("experts", {3, 8, 4}, 0, 3);
  set.add("b", {100, 3}).role = Role::kEmbedding;
  OptimizerConfig config;
  config.name = "muon";
  config.zero_block = 16;
  for (int ranks = 1; ranks <= 9; ++ranks) {
    std::vector<int64_t> sums(4, 0);
    for (const std::vector<int64_t>& counts : owned(set, ranks, config))
      for (size_t i = 0; i < counts.size(); ++i) {
        sums[i] += counts[i];
        if (i == 0) {
          EXPECT_EQ(counts[0] % 15, 0);
        }
        if (i == 2) {
          EXPECT_EQ(counts[2] % 32, 0);
        }
      }
    EXPECT_EQ(sums, (std::vector<int64_t>{15, 7, 96, 300})) << ranks;
  }
}

}  // namespace
}  // namespace heddle
