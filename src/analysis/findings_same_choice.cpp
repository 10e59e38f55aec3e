#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/findings.h"
#include "analysis/thresholds.h"
#include "support/ini.h"

namespace heddle {

namespace {

using thresholds::kSameChoice;

/// Value of a key in the run's configuration, or "".
std::string setting(const RunLog& log, const std::string& key) {
  for (const IniEntry& entry : parse_ini(log.header.config, "the log's configuration"))
    if (entry.key == key) return entry.value;
  return "";
}

/// The loops choose alike whatever the router: the overlap is 1.
bool stands(const CellSummary& c) {
  return c.overlap >= 1 - kSameChoice;
}
/// The loops choose as if they had one router: it makes the same choice, and the overlap is what it alone would give.
bool copies(const CellSummary& c) {
  return c.router_agreement >= 1 - kSameChoice && std::abs(c.overlap - c.state_agreement) <= kSameChoice;
}

/// Largest effect of swapping the routers of a cell's loop and the one before, of those that the probe has; null
/// without.
const Effect* swap_of(const ProbeResult* probe, const CellSummary& c) {
  if (probe == nullptr) return nullptr;
  const Effect* found = nullptr;
  for (const Effect& e : probe->router_swaps)
    if (e.loop == c.loop - 1 && e.other_loop == c.loop && (e.layer == c.layer || (e.layer < 0 && found == nullptr)))
      found = &e;
  return found;
}

std::string numbers(const CellSummary& c) {
  std::string text = fmt::format("between loops {} and {} in layer {} the overlap is {:.3f} ({:.3f} by chance", c.loop,
                                 c.loop + 1, c.layer, c.overlap, c.chance);
  if (!std::isnan(c.router_agreement))
    text += fmt::format("; the router of loop {} would choose {:.3f} alike, and {:.3f} of its own choice again", c.loop,
                        c.router_agreement, c.state_agreement);
  return text + ")";
}

}  // namespace

void find_same_choice(const RunLog& log, const Diagnosis& d, const ProbeResult* probe, Findings& findings) {
  if (log.header.loops < 2 || log.header.experts == 0) return;
  const CellSummary* worst = nullptr;
  int64_t cells = 0;
  for (const CellSummary& c : d.cells) {
    if (!c.visited || c.loop == 0 || !(stands(c) || copies(c))) continue;
    ++cells;
    if (worst == nullptr || c.overlap > worst->overlap) worst = &c;
  }
  if (worst == nullptr) return;
  const std::string where = fmt::format("{}; {} pair(s) of loops and layers in all", numbers(*worst), cells);
  if (is_early(log)) {
    findings.push_back({Severity::kNote, "same_choice_early",
                        fmt::format("too early to tell whether loops choose alike: {}", where),
                        "the routers of all loops start as copies", "look again after the warm-up"});
    return;
  }
  const std::string shared = setting(log, "moe.router");
  const bool by_design = shared == "shared" || shared == "shared_bias";
  const std::string cause =
      stands(*worst) && !std::isnan(worst->router_agreement) && worst->router_agreement < 1 - kSameChoice
          ? "the state hardly changes from loop to loop, so that different routers meet the same question"
      : by_design ? "one router serves all loops (moe.router): choices differ only as far as the state does"
                  : "the routers of the loops have not separated, or the state hardly changes";
  if (by_design && !stands(*worst)) {
    findings.push_back({Severity::kNote, "one_router", fmt::format("loops share their router: {}", where), cause,
                        "moe.router per_loop gives every loop its own"});
    return;
  }
  const Effect* const swap = swap_of(probe, *worst);
  if (swap == nullptr) {
    findings.push_back({Severity::kWarning, "same_choice",
                        fmt::format("loops choose the same experts: {}; whether it matters is not known", where), cause,
                        "heddle probe RUN, then heddle diagnose RUN: swapping the routers of two loops tells"});
    return;
  }
  const std::string effect = fmt::format("swapping their routers changes the loss by {:+.4f} +- {:.4f} nats per token",
                                         swap->change.mean, swap->change.standard_error);
  const bool matters = std::abs(swap->change.mean) > thresholds::kStandardErrors * swap->change.standard_error;
  if (matters)
    findings.push_back({Severity::kNote, "same_choice_matters",
                        fmt::format("loops choose much alike, but not in vain: {}; {}", where, effect), cause,
                        "nothing to do: the routers differ where it counts"});
  else
    findings.push_back(
        {Severity::kProblem, "loops_collapsed",
         fmt::format("the choice of experts has collapsed between loops: {}; {}: no difference", where, effect), cause,
         "train longer, raise optimizer.learning_rate, or strengthen what tells loops apart "
         "(reinjection.kind, residual.lambda); else fewer loops cost less and do the same"});
}

}  // namespace heddle
