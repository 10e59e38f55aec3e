// Loss of a part of a token store at given loop counts, exact over all targets at any number of ranks.
#pragma once

#include <functional>
#include <vector>

#include "data/token_store.h"
#include "model/looped_model.h"

namespace heddle {

/// What the constants use when a count other than the configured one is run.
enum class DepthRule {
  kTrained,   ///< the configured count: fewer loops is early exit
  kRescaled,  ///< the count that is run
};

struct EvaluationOptions {
  std::vector<int64_t>
      loops;  ///< counts, each once in rising order; empty: the model's (before growth: the count until then)
  DepthRule rule = DepthRule::kTrained;
  int64_t sequence = 256;
  int64_t micro_batch = 8;
  int64_t samples = 0;  ///< at most so many windows from the start of the part; 0: all
  bool document_mask = true;
  uint64_t seed = 0;  ///< of the initial state, where it is noise
  /// Asked by all ranks together before every micro-batch: true ends the evaluation without a result.
  std::function<bool()> interrupted;
};

struct EvaluationResult {
  int64_t loops = 0;
  int64_t targets = 0;  ///< tokens whose loss was counted
  double nats_per_token = 0;
  double bits_per_byte = 0;  ///< over the bytes of those tokens (an end mark has none)
};

/// Bytes of text behind every token id, [V].
std::vector<double> token_bytes(const TokenStore& store);

/// One forward pass over loops.back() loops; adds to `sums` the summed cross-entropy after each of the counts, which
/// rise. constants_loops as in LoopedModel::Options. Collective.
void add_losses(LoopedModel& model, const TokenBatch& batch, const std::vector<int64_t>& loops, int64_t constants_loops,
                bool use_capacity, std::span<double> sums);

/// Capacity is off, loads are not counted. Empty where it was interrupted. Collective.
std::vector<EvaluationResult> evaluate(LoopedModel& model, const TokenStore& store, Part part,
                                       const EvaluationOptions& options);

}  // namespace heddle
