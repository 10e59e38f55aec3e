// The results of heddle probe as tables. Loops count from 1, layers and experts from 0; changes of the loss and their
// standard errors are in nats per token.
#pragma once

#include <string>
#include <vector>

#include "analysis/probe_result.h"
#include "report/table.h"

namespace heddle::report {

/// [series, loops]: loss, low and high (one standard error away).
Table loss_by_loop(const std::vector<LoopLoss>& losses);

/// [effect]: change, error of effects that have a name each, such as "loop 3" or "layer 0, expert 7".
Table named_effects(const std::vector<Effect>& effects);

/// [series, point]: loops, change, low, high.
Table loop_count_effects(const std::vector<Effect>& effects);

/// [loop, layer]: change, error of skipped blocks; null where none was skipped.
Table block_effects(const ProbeResult& probe);

/// [loop, other, layer]: change, error of swapped routers, both ways round; layer -1 stands for all layers.
Table swap_effects(const ProbeResult& probe);
/// The layers of swap_effects().
std::vector<int64_t> swapped_layers(const ProbeResult& probe);

/// [series, entry]: kl and loss, kl_low and kl_high (one standard error away), index from 0, and the axis entry is the
/// name of the entry, such as "loop 2 layer 0".
Table depth_curve(const DepthCurve& depth);

/// [quantity, pair]: nats, found and by chance.
Table information(const std::vector<MutualInformation>& all);

/// [matrix]: alignment.
Table alignments(const std::vector<MatrixGradient>& matrices);
/// [group]: kappa.
Table kappas(const std::vector<Kappa>& all);

}  // namespace heddle::report
