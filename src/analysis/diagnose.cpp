#include "analysis/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/routing_metrics.h"

namespace heddle {

namespace {

constexpr double kCollapsedEntropy = 0.5;   // half of the information that a uniform choice carries
constexpr double kOverloadedShare = 0.5;    // one expert takes every second slot
constexpr double kSameChoice = 0.95;        // loops that agree on 19 of 20 slots do the work of one
constexpr double kStateGrowth = 4.0;        // stream RMS of a later visit of a layer over its first; scaled residuals keep it near 1
constexpr double kEarlyShare = 0.1;         // routers of all loops start as copies; overlap means little before this
constexpr double kManySkips = 0.01;         // share of steps without an update

/// The load of one (loop, layer) summed over the window.
std::vector<double> window_load(const RunLog& log, size_t first, int64_t cell) {
  const int64_t experts = log.header.experts;
  std::vector<double> load(static_cast<size_t>(experts), 0);
  for (size_t i = first; i < log.steps.size(); ++i)
    for (int64_t e = 0; e < experts; ++e)
      load[static_cast<size_t>(e)] += static_cast<double>(log.steps[i].load[static_cast<size_t>(cell * experts + e)]);
  return load;
}

std::vector<CellSummary> summarise(const RunLog& log, size_t first) {
  const RunLogHeader& h = log.header;
  const auto steps = static_cast<double>(log.steps.size() - first);
  std::vector<CellSummary> cells;
  for (int64_t loop = 0; loop < h.loops; ++loop) {
    for (int64_t layer = 0; layer < h.layers; ++layer) {
      const int64_t cell = loop * h.layers + layer;
      const std::vector<double> load = window_load(log, first, cell);
      CellSummary c{loop, layer, normalised_entropy(load), largest_share(load), dead_experts(load)};
      double kept = 0, dropped = 0;
      for (const double slots : load) kept += slots;
      for (size_t i = first; i < log.steps.size(); ++i) dropped += static_cast<double>(log.steps[i].dropped[static_cast<size_t>(cell)]);
      for (size_t i = first; i < log.steps.size(); ++i) c.block_rms += log.steps[i].block_rms[static_cast<size_t>(cell)] / steps;
      c.dropped_share = kept + dropped > 0 ? dropped / (kept + dropped) : 0;
      if (loop + 1 < h.loops) {
        c.overlap = 0;
        for (size_t i = first; i < log.steps.size(); ++i) c.overlap += log.steps[i].overlap[static_cast<size_t>(cell)] / steps;
        c.chance = chance_overlap(load, window_load(log, first, cell + h.layers), h.top_k);
      }
      cells.push_back(c);
    }
  }
  return cells;
}

std::vector<double> mean_state_rms(const RunLog& log, size_t first) {
  std::vector<double> rms(static_cast<size_t>(log.header.loops), 0);
  for (size_t i = first; i < log.steps.size(); ++i)
    for (size_t t = 0; t < rms.size(); ++t) rms[t] += log.steps[i].state_rms[t] / static_cast<double>(log.steps.size() - first);
  return rms;
}

std::string place(const CellSummary& c) { return fmt::format("loop {} layer {}", c.loop + 1, c.layer); }

void find_collapse(const Diagnosis& d, std::vector<Finding>& findings) {
  const auto lowest = std::min_element(d.cells.begin(), d.cells.end(), [](const auto& a, const auto& b) { return a.entropy < b.entropy; });
  const auto fullest = std::max_element(d.cells.begin(), d.cells.end(),
                                        [](const auto& a, const auto& b) { return a.largest_share < b.largest_share; });
  if (lowest->entropy < kCollapsedEntropy || fullest->largest_share > kOverloadedShare)
    findings.push_back({Severity::kProblem,
                        fmt::format("experts collapsed: entropy {:.2f} in {}, one expert takes {:.0f} % of the slots in {}",
                                    lowest->entropy, place(*lowest), 100 * fullest->largest_share, place(*fullest)),
                        "the router sends most tokens to few experts and nothing pulls them back",
                        "raise train.balance_rate, or lower optimizer.learning_rate in the first steps"});
  int64_t dead = 0;
  for (const CellSummary& c : d.cells) dead += c.dead;
  if (dead > 0)
    findings.push_back({Severity::kWarning, fmt::format("{} expert(s) got no slot in some loop and layer of the window", dead),
                        "too few tokens in the window, or experts that no router picks",
                        "look at the table; raise train.balance_rate if it lasts"});
}

void find_same_choice(const RunLog& log, const Diagnosis& d, std::vector<Finding>& findings) {
  if (log.header.loops < 2) return;
  const auto same = std::max_element(d.cells.begin(), d.cells.end(), [](const auto& a, const auto& b) { return a.overlap < b.overlap; });
  const int64_t done = log.steps.back().step;
  const bool early = done <= log.header.warmup_steps || static_cast<double>(done) <= kEarlyShare * static_cast<double>(log.header.steps);
  if (same->overlap <= kSameChoice) return;
  if (early)
    findings.push_back({Severity::kNote,
                        fmt::format("too early to tell whether loops choose alike (overlap {:.3f} in {}, step {} of {})",
                                    same->overlap, place(*same), done, log.header.steps),
                        "the routers of all loops start as copies", "look again after the warm-up"});
  else
    findings.push_back({Severity::kWarning,
                        fmt::format("loops choose the same experts: overlap {:.3f} between loops {} and {} in layer {}, {:.3f} expected by chance",
                                    same->overlap, same->loop + 1, same->loop + 2, same->layer, same->chance),
                        "the routers have not separated, or the state hardly changes from loop to loop",
                        "train longer; check that the state moves (RMS below) and compare the loss by loop: heddle eval --eval.loops"});
}

void find_unstable(const RunLog& log, const Diagnosis& d, std::vector<Finding>& findings) {
  for (const StepRecord& r : log.steps) {
    if (std::isfinite(r.loss)) continue;
    findings.push_back({Severity::kProblem, fmt::format("loss is not finite at step {}", r.step),
                        "the update before it was too large, or the state exploded",
                        "lower optimizer.learning_rate and resume from an earlier checkpoint"});
    break;
  }
  for (const CellSummary& c : d.cells) {
    const double before = d.cells[static_cast<size_t>(c.layer)].block_rms;
    if (c.block_rms <= kStateGrowth * before) continue;
    findings.push_back({Severity::kProblem,
                        fmt::format("the stream grows over the loops: RMS {:.2f} in loop 1, {:.2f} in loop {} of layer {}", before,
                                    c.block_rms, c.loop + 1, c.layer),
                        "each visit adds more than the norms take away", "lower residual.lambda"});
    break;
  }
  int64_t skipped = 0;
  for (const StepRecord& r : log.steps) skipped += std::any_of(r.skipped.begin(), r.skipped.end(), [](int64_t s) { return s != 0; });
  if (skipped > 0)
    findings.push_back({static_cast<double>(skipped) > kManySkips * static_cast<double>(log.steps.size()) ? Severity::kProblem : Severity::kWarning,
                        fmt::format("{} of {} steps made no update", skipped, log.steps.size()),
                        "gradients were not finite, or the spike guard stepped in", "lower optimizer.learning_rate"});
}

void find_stall(const RunLog& log, const Diagnosis& d, std::vector<Finding>& findings) {
  if (log.steps.size() < 40 || log.steps.back().step <= 2 * log.header.warmup_steps) return;
  if (d.last_loss >= d.first_loss)
    findings.push_back({Severity::kProblem, fmt::format("the loss did not fall: {:.4f} at the start, {:.4f} now", d.first_loss, d.last_loss),
                        "the rate is too high or too low, or gradients do not reach the weights",
                        "try optimizer.learning_rate three times lower, and higher"});
}

const char* name_of(Severity severity) {
  switch (severity) {
    case Severity::kNote: return "note";
    case Severity::kWarning: return "warning";
    case Severity::kProblem: return "problem";
  }
  return "";
}

}  // namespace

Diagnosis diagnose(const RunLog& log) {
  Diagnosis d;
  if (log.steps.empty()) {
    d.verdict = "no step yet: nothing to diagnose";
    return d;
  }
  constexpr size_t kLongestWindow = 100;
  const size_t window = std::clamp<size_t>(log.steps.size() / 4, 1, kLongestWindow);
  const size_t first = log.steps.size() - window;
  d.window = static_cast<int64_t>(window);
  d.cells = summarise(log, first);
  d.state_rms = mean_state_rms(log, first);
  double tokens = 0, seconds = 0;
  for (size_t i = 0; i < window; ++i) {
    d.first_loss += log.steps[i].loss / static_cast<double>(window);
    d.last_loss += log.steps[first + i].loss / static_cast<double>(window);
    tokens += log.steps[first + i].tokens;
    seconds += log.steps[first + i].step_seconds;
  }
  d.tokens_per_second = seconds > 0 ? tokens / seconds : 0;
  find_unstable(log, d, d.findings);
  find_collapse(d, d.findings);
  find_same_choice(log, d, d.findings);
  find_stall(log, d, d.findings);
  for (const Finding& f : d.findings) d.worst = std::max(d.worst, f.severity);
  const bool done = log.steps.back().step >= log.header.steps;
  const std::string state = done ? "finished" : fmt::format("at step {} of {}", log.steps.back().step, log.header.steps);
  switch (d.worst) {
    case Severity::kNote: d.verdict = fmt::format("healthy ({})", state); break;
    case Severity::kWarning: d.verdict = fmt::format("runs, with warnings ({})", state); break;
    case Severity::kProblem: d.verdict = fmt::format("something is wrong ({})", state); break;
  }
  return d;
}

std::string render(const RunLog& log, const Diagnosis& d) {
  std::string text = fmt::format("verdict: {}\n", d.verdict);
  if (log.steps.empty()) return text;
  text += fmt::format("loss {:.4f} -> {:.4f} nats per token (means over {} steps), {:.0f} tokens/s\n", d.first_loss, d.last_loss,
                      d.window, d.tokens_per_second);
  if (!log.validations.empty())
    text += fmt::format("validation {:.4f} bits per byte after step {}\n", log.validations.back().bits_per_byte,
                        log.validations.back().step);
  text += fmt::format("routing over the last {} steps ({} experts, {} per token; uniform chance of an overlap {:.3f}):\n", d.window,
                      log.header.experts, log.header.top_k,
                      static_cast<double>(log.header.top_k) / static_cast<double>(log.header.experts));
  text += "  loop layer  entropy  largest share  dead  dropped   overlap with next loop (chance)   RMS before norm\n";
  for (const CellSummary& c : d.cells) {
    text += fmt::format("  {:>4} {:>5}  {:>7.3f}  {:>12.1f}%  {:>4}  {:>6.1f}%   ", c.loop + 1, c.layer, c.entropy,
                        100 * c.largest_share, c.dead, 100 * c.dropped_share);
    text += c.overlap < 0 ? fmt::format("{:>31}", "-") : fmt::format("{:>22.3f} ({:.3f})", c.overlap, c.chance);
    text += fmt::format("   {:>15.3f}\n", c.block_rms);
  }
  for (const Finding& f : d.findings)
    text += fmt::format("{}: {}\n  cause: {}\n  fix: {}\n", name_of(f.severity), f.what, f.cause, f.fix);
  return text;
}

}  // namespace heddle
