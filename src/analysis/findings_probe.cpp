#include <fmt/format.h>

#include <cmath>

#include "analysis/findings.h"
#include "analysis/thresholds.h"

namespace heddle {

namespace {

/// Skipping does not make the loss worse by what could be told from nothing.
bool is_idle(const Effect& e) {
  return std::isfinite(e.change.standard_error) &&
         e.change.mean < thresholds::kStandardErrors * e.change.standard_error;
}

std::string change(const Effect& e) {
  return fmt::format("{:+.4f} +- {:.4f}", e.change.mean, e.change.standard_error);
}

}  // namespace

void find_wasted_loops(const ProbeResult& probe, Findings& findings) {
  std::string loops, blocks;
  for (const Effect& e : probe.skipped_loops)
    if (is_idle(e)) loops += fmt::format("{}loop {} ({})", loops.empty() ? "" : ", ", e.loop + 1, change(e));
  if (!loops.empty())
    findings.push_back({Severity::kWarning, "wasted_loops",
                        fmt::format("loops that change nothing when skipped: {} nats per token, {} documents", loops,
                                    probe.skipped_loops.front().documents),
                        "the loops around them do the same work, or nothing of theirs reaches the output",
                        "use fewer loops, or train with losses after several loops (loss.loop_weights)"});
  int64_t count = 0;
  for (const Effect& e : probe.skipped_blocks) {
    if (!is_idle(e)) continue;
    if (++count <= 6)
      blocks += fmt::format("{}loop {} layer {} ({})", blocks.empty() ? "" : ", ", e.loop + 1, e.layer, change(e));
  }
  if (count == 0) return;
  if (count > 6) blocks += fmt::format(" and {} more", count - 6);
  findings.push_back({Severity::kNote, "wasted_blocks",
                      fmt::format("{} of {} visits of a layer change nothing when skipped: {}", count,
                                  probe.skipped_blocks.size(), blocks),
                      "the residual stream carries past them what others need",
                      "a note: single visits are often dispensable where whole loops are not"});
}

void find_aligned_visits(const ProbeResult& probe, Findings& findings) {
  for (const Kappa& k : probe.gradients.kappas) {
    if (!(k.bound > thresholds::kAlignedBound)) continue;
    findings.push_back(
        {Severity::kWarning, "aligned_visits",
         fmt::format("updates of {} add up over its visits: kappa {:.2f} of at most {}, M kappa s^2 = {:.2f}", k.group,
                     k.kappa, k.loops.size(), k.bound),
         "the gradients of the visits point the same way, and so does what the visits make of an update",
         "raise residual.deepnorm_power towards 1/2, lower residual.multiplier or residual.lambda, or the learning "
         "rate of the core (optimizer.tied_rate_power)"});
    return;
  }
}

}  // namespace heddle
