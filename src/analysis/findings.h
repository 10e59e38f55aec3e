// What a diagnosis looks for. Each function appends what it finds; what was not run is not judged.
#pragma once

#include "analysis/diagnose.h"

namespace heddle {

using Findings = std::vector<Finding>;

void find_broken_loss(const RunLog& log, Findings& findings);
void find_skips(const RunLog& log, Findings& findings);
void find_stall(const RunLog& log, const Diagnosis& d, Findings& findings);

void find_growth(const Diagnosis& d, Findings& findings);
/// Frozen, drifting, or the same for all tokens.
void find_states(const RunLog& log, const Diagnosis& d, Findings& findings);

void find_collapsed_experts(const RunLog& log, const Diagnosis& d, Findings& findings);
void find_dead_experts(const Diagnosis& d, Findings& findings);
/// Loops that choose the same experts: whether it is the router or the state, and with a probe whether it matters.
void find_same_choice(const RunLog& log, const Diagnosis& d, const ProbeResult* probe, Findings& findings);

/// Loops, blocks that change nothing when they are skipped; visits whose gradients add up.
void find_wasted_loops(const ProbeResult& probe, Findings& findings);
void find_aligned_visits(const ProbeResult& probe, Findings& findings);

/// The routers of all loops start as copies: no verdict on their choices before the warm-up and a tenth of the run.
bool is_early(const RunLog& log);
std::string place(const CellSummary& c);  ///< "loop 2 layer 0": loops are counted from 1, layers from 0

}  // namespace heddle
