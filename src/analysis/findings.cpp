#include "analysis/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "analysis/thresholds.h"

namespace heddle {

void find_broken_loss(const RunLog& log, Findings& findings) {
  const auto broken = [](const StepRecord& r) { return !std::isfinite(r.loss); };
  const auto first = std::find_if(log.steps.begin(), log.steps.end(), broken);
  if (first == log.steps.end()) return;
  const bool lasting = broken(log.steps.back());
  findings.push_back({lasting ? Severity::kProblem : Severity::kWarning, "loss_not_finite",
                      fmt::format("loss is not finite in {} step(s), first at step {}, {}",
                                  std::count_if(first, log.steps.end(), broken), first->step,
                                  lasting ? "and still at the end" : "but finite again at the end"),
                      "the update before it was too large, or the state exploded",
                      "lower optimizer.learning_rate and resume from a checkpoint before that step"});
}

void find_skips(const RunLog& log, Findings& findings) {
  const auto skips = [](const StepRecord& r) {
    return std::any_of(r.skipped.begin(), r.skipped.end(), [](int64_t s) { return s != 0; });
  };
  const auto skipped = std::count_if(log.steps.begin(), log.steps.end(), skips);
  if (skipped == 0) return;
  const bool many = static_cast<double>(skipped) > thresholds::kManySkips * static_cast<double>(log.steps.size());
  findings.push_back({many ? Severity::kProblem : Severity::kWarning, "skipped_steps",
                      fmt::format("{} of {} steps made no update", skipped, log.steps.size()),
                      "gradients were not finite, or the spike guard stepped in", "lower optimizer.learning_rate"});
}

void find_stall(const RunLog& log, const Diagnosis& d, Findings& findings) {
  if (log.steps.size() < thresholds::kStallSteps || log.steps.back().step <= 2 * log.header.warmup_steps) return;
  if (d.last_loss >= d.first_loss)
    findings.push_back(
        {Severity::kProblem, "loss_did_not_fall",
         fmt::format("the loss did not fall: {:.4f} at the start, {:.4f} now", d.first_loss, d.last_loss),
         "the rate is too high or too low, or gradients do not reach the weights",
         "try optimizer.learning_rate three times lower, and higher"});
}

void find_growth(const Diagnosis& d, Findings& findings) {
  for (const CellSummary& c : d.cells) {
    const double before = d.cells[static_cast<size_t>(c.layer)].block_rms;
    if (!(c.block_rms > thresholds::kStateGrowth * before)) continue;  // NaN is reported by the loss
    findings.push_back(
        {Severity::kProblem, "growing_state",
         fmt::format("the stream grows over the loops: RMS {:.2f} in loop 1, {:.2f} in loop {} of layer {}", before,
                     c.block_rms, c.loop + 1, c.layer),
         "each visit adds more than the norms take away",
         "lower residual.lambda (scaled scheme) or residual.multiplier, or set norms.loop_end"});
    return;
  }
}

void find_states(const RunLog& log, const Diagnosis& d, Findings& findings) {
  if (d.looks == 0 || is_early(log)) return;
  int64_t last = -1;
  for (size_t t = 0; t < d.loops.size(); ++t)
    if (!std::isnan(d.loops[t].relative_update)) last = static_cast<int64_t>(t);
  for (int64_t t = 1; t <= last; ++t) {
    const LoopSummary& loop = d.loops[static_cast<size_t>(t)];
    if (!(loop.relative_update < thresholds::kFrozenUpdate) || !(loop.cosine_back[0] > thresholds::kFrozenCosine))
      continue;
    findings.push_back(
        {Severity::kWarning, "frozen_state",
         fmt::format("the state stands still in loop {}: relative update {:.3f}, cosine with the loop before {:.4f}",
                     t + 1, loop.relative_update, loop.cosine_back[0]),
         "what the loop adds is small beside the state, so that it hands on what it got",
         "raise residual.lambda or residual.multiplier, or use fewer loops; heddle probe tells what the loop is "
         "worth"});
    break;
  }
  // The last loops of a healthy run settle.
  if (last + 1 >= thresholds::kSettledLoop) {
    const LoopSummary& loop = d.loops[static_cast<size_t>(last)];
    if (loop.relative_update > thresholds::kDriftingUpdate && loop.cosine_back[0] < thresholds::kDriftingCosine) {
      const bool cycles = loop.cosine_back[2] > loop.cosine_back[0] || loop.cosine_back[1] > loop.cosine_back[0];
      findings.push_back(
          {Severity::kWarning, "drifting_state",
           fmt::format("the state does not settle: in loop {} it changes by {:.2f} of its norm, cosine with the loop "
                       "before {:.3f}{}",
                       last + 1, loop.relative_update, loop.cosine_back[0],
                       cycles ? fmt::format(", with two and three loops before {:.3f} and {:.3f}: it goes in a circle",
                                            loop.cosine_back[1], loop.cosine_back[2])
                              : ""),
           "every visit adds as much as the state holds",
           "use residual.scheme scaled or lower residual.multiplier; re-injection (reinjection.kind) holds the state"});
    }
  }
  for (int64_t t = 0; t <= last; ++t) {
    const LoopSummary& loop = d.loops[static_cast<size_t>(t)];
    if (!(loop.token_cosine > thresholds::kSameTokens)) continue;
    findings.push_back({Severity::kWarning, "same_tokens",
                        fmt::format("the tokens have become alike: mean cosine between tokens {:.3f} after loop {}",
                                    loop.token_cosine, t + 1),
                        "the loops add one common direction to every token",
                        "turn on re-injection (reinjection.kind), or lower the scale of the branches"});
    break;
  }
}

void find_collapsed_experts(const RunLog& log, const Diagnosis& d, Findings& findings) {
  // Loops that no step of the window ran (before growth, or beyond what was drawn) say nothing.
  std::vector<CellSummary> cells;
  std::copy_if(d.cells.begin(), d.cells.end(), std::back_inserter(cells), [](const auto& c) { return c.visited; });
  if (log.header.experts == 0 || cells.empty()) return;
  const auto lowest =
      std::min_element(cells.begin(), cells.end(), [](const auto& a, const auto& b) { return a.entropy < b.entropy; });
  const auto fullest = std::max_element(cells.begin(), cells.end(),
                                        [](const auto& a, const auto& b) { return a.largest_share < b.largest_share; });
  const double even = 1 / static_cast<double>(log.header.experts);
  const bool overloaded = fullest->largest_share > thresholds::kOverloadedShare && fullest->largest_share > 2 * even;
  if ((log.header.experts == 1 || lowest->entropy >= thresholds::kCollapsedEntropy) && !overloaded) return;
  findings.push_back(
      {Severity::kProblem, "experts_collapsed",
       fmt::format("experts collapsed: entropy {:.2f} in {}, one expert takes {:.0f} % of the slots in {}",
                   lowest->entropy, place(*lowest), 100 * fullest->largest_share, place(*fullest)),
       "the router sends most tokens to few experts and nothing pulls them back",
       "raise train.balance_rate, or lower optimizer.learning_rate in the first steps"});
}

void find_dead_experts(const Diagnosis& d, Findings& findings) {
  int64_t dead = 0;
  const CellSummary* worst = nullptr;
  for (const CellSummary& c : d.cells) {
    dead += c.dead;
    if (c.dead > 0 && (worst == nullptr || c.dead > worst->dead)) worst = &c;
  }
  if (worst == nullptr) return;
  findings.push_back(
      {Severity::kWarning, "dead_experts",
       fmt::format("{} expert(s) got no slot in the window, where each could expect {:.0f} or more; most in {}: {}",
                   dead, thresholds::kExpectedLoad, place(*worst), worst->dead),
       "experts that no router picks, or that the routers of one loop leave to another",
       "look at the table; raise train.balance_rate if it lasts, or moe.balance_scope layer_loop"});
}

}  // namespace heddle
