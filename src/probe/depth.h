// KL effective depth: the stream after every block decoded with the final norm and head (logit lens), against the
// model's own distribution. The curve tells where the answer is formed; skipping (probe/effects.h) also finds blocks
// that are not needed.
#pragma once

#include "probe/documents.h"

namespace heddle {

/// Index of the first entry behind the largest one (the first of equal ones) with kl <= threshold; -1: none.
int64_t effective_depth(const std::vector<double>& kl, double threshold);

/// Entries, peak and effective depth, from one forward pass. Keeps the stream of all blocks of a micro-batch,
/// [blocks + 1, N, D], and logits of some rows at a time. Collective.
DepthCurve probe_depth(LoopedModel& model, const ProbeDocuments& documents);

}  // namespace heddle
