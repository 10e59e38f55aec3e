// The rows of a run's log as tables: curves over steps, and what loops, layers and experts did in stretches of the run.
// Loops count from 1 and layers and experts from 0, as in heddle diagnose.
#pragma once

#include <string>
#include <vector>

#include "analysis/run_log.h"
#include "report/table.h"

namespace heddle::report {

/// [run, point]: step (the last of the point), loss with loss_low and loss_high, bits_per_byte, tokens_per_second,
/// learning_rate, gradient_norm (of the step's last update that was tried), loops. Means over the steps of the point.
Table curves(const std::string& run, const RunLog& log);

/// [run, point]: step, loss (nats per token), bits_per_byte of the validations.
Table validations(const std::string& run, const RunLog& log);

/// [segment, point]: step, loss after the segment.
Table segment_losses(const RunLog& log);

/// The stretches of the run that cells() and loads() show, as texts: "steps 1 to 50".
std::vector<std::string> stretches(const RunLog& log);

/// [frame, loop, layer]: block_rms, and with experts entropy (normalised), largest_share, dead (experts without a
/// slot), dropped (share of the wanted slots), overlap with the next loop, chance (of the loads) and uniform (k / E),
/// and over_chance and over_uniform, the overlap less these. What a stretch did not run is null.
Table cells(const RunLog& log);

/// [frame, loop, layer, expert]: share of the slots of the loop and layer; null where it took none at all.
Table loads(const RunLog& log);

/// [frame, series, loop]: state_rms; one series.
Table state_rms(const RunLog& log);

/// [quantity, purpose]: bytes, of the last row of memory; the quantities are "peak" and "planned", and the last purpose
/// is "all together".
Table memory(const RunLog& log);

}  // namespace heddle::report
