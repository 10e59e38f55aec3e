// Changes to a forward pass that ask what a part of the model is for: loops, blocks or experts left out, routers of
// other loops, choices that are given. The weights stay as they are. Without interventions the pass costs nothing and
// has the same bits. The number of loops is no intervention: LoopedModel::run_loops takes it.
//
// All ranks must give the same interventions (what travels depends on them), but for given choices, which are of each
// rank's own tokens.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace heddle {

/// Loops and core layers count from 0.
struct Interventions {
  /// State, lanes and accumulators pass these loops as they are, without re-injection and loop-end norm.
  std::set<int64_t> skipped_loops;
  /// (loop, layer): the stream passes the block as it is, without its norms; the looping residual does not hear of it.
  std::set<std::pair<int64_t, int64_t>> skipped_blocks;
  /// (stored layer, expert): slots that choose it contribute nothing, in every visit; the weights of the token's other
  /// slots stay what they were. Observers see its slots as not kept. Only on tapes that do not record.
  std::set<std::pair<int64_t, int64_t>> skipped_experts;
  /// (loop, layer) -> loop whose router serves: its weights, router bias and row of balance biases. For tied cores.
  std::map<std::pair<int64_t, int64_t>, int64_t> routers;
  /// (stored layer, loop) -> experts that are chosen, int32 [N,k], in place of the router's choice; the weights are
  /// the router's scores of these. Derivatives by differences need it: a choice jumps.
  std::map<std::pair<int64_t, int64_t>, Tensor> choices;

  bool skips_block(int64_t loop, int64_t layer) const { return skipped_blocks.contains({loop, layer}); }
  int64_t router_of(int64_t loop, int64_t layer) const {
    const auto found = routers.find({loop, layer});
    return found == routers.end() ? loop : found->second;
  }
  std::vector<int64_t> skipped_experts_of(int64_t stored_layer) const {
    std::vector<int64_t> experts;
    for (const auto& [layer, expert] : skipped_experts)
      if (layer == stored_layer) experts.push_back(expert);
    return experts;
  }
  const Tensor* choice_of(int64_t stored_layer, int64_t loop) const {
    const auto found = choices.find({stored_layer, loop});
    return found == choices.end() ? nullptr : &found->second;
  }
};

}  // namespace heddle
