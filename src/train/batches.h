// From loader rows to the micro-batches of one rank. A micro-step takes ranks * micro_batch sequences of the global
// batch in order, rank by rank; the last one may be shorter, and a rank's part of it empty.
#pragma once

#include <cstdint>
#include <vector>

#include "data/loader.h"
#include "model/looped_model.h"

namespace heddle {

struct RowRange {
  int64_t first = 0, count = 0;
};

/// This rank's rows of every micro-step; the same number of micro-steps on all ranks.
std::vector<RowRange> micro_batch_rows(int64_t global_batch, int64_t micro_batch, int rank, int ranks);

/// Rows [range.first, range.first + range.count) of loader rows as tensors.
TokenBatch token_batch(const Batch& batch, RowRange range);

enum class NoiseUse : uint32_t { kTraining, kEvaluation, kGeneration };
/// Draws the initial state if the model's is noise: normal, a function of (seed, use, number of the row, position,
/// channel). `first_row`: number of the batch's first row in the whole run, evaluation or text.
void add_noise(TokenBatch& batch, const ModelConfig& model, uint64_t seed, NoiseUse use, int64_t first_row);

}  // namespace heddle
