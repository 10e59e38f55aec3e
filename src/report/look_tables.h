// The looks of a run's log (/statistics) as tables. Loops count from 1 and layers from 0; what a look did not have is
// null. All need at least one look.
#pragma once

#include <string>
#include <vector>

#include "analysis/run_log.h"
#include "report/table.h"

namespace heddle::report {

/// The looks that the tables show, as texts: "step 100".
std::vector<std::string> looks_shown(const RunLog& log);

/// [frame, loop, layer]: attention_rms, feed_forward_rms, carry_rms, and with experts flipped, router_logit_max,
/// router_z, token_entropy, router_agreement, state_agreement.
Table look_cells(const RunLog& log);

/// [frame, loop, other, layer]: pair_overlap, pair_jaccard, weight_overlap, router_cosine. With experts only.
Table loop_pairs(const RunLog& log);

/// [frame, series, loop]: experts, distinct experts that a token has met after so many loops; a series per layer, and
/// one of what random choices give, E (1 - (1 - k/E)^t). With experts only.
Table distinct_experts(const RunLog& log);

/// Experts that a token has met after t choices of k out of E at random.
double distinct_by_chance(int64_t experts, int64_t top_k, int64_t loops);

/// [frame, series, loop]: value, of the root mean square of the update.
Table update_rms(const RunLog& log);
/// [frame, series, loop]: value, of the norm of the update over that of the state before.
Table relative_update(const RunLog& log);
/// [frame, series, loop]: value, of cosines of the state with the states one to three loops before, with the embedding,
/// and between tokens.
Table state_cosines(const RunLog& log);

}  // namespace heddle::report
