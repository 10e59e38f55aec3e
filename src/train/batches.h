// From loader rows to the micro-batches of one rank. A micro-step takes ranks * micro_batch sequences of the global
// batch in order, rank by rank; the last one may be shorter, and a rank's part of it empty.
#pragma once

#include <cstdint>
#include <vector>

#include "data/loader.h"
#include "model/loom.h"

namespace heddle {

struct RowRange {
  int64_t first = 0, count = 0;
};

/// This rank's rows of every micro-step; the same number of micro-steps on all ranks.
std::vector<RowRange> micro_batch_rows(int64_t global_batch, int64_t micro_batch, int rank, int ranks);

/// Rows [range.first, range.first + range.count) of loader rows as tensors.
TokenBatch token_batch(const Batch& batch, RowRange range);

}  // namespace heddle
