#include "analysis/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

#include "analysis/routing_metrics.h"
#include "support/text_table.h"

namespace heddle {

namespace {

using Steps = std::span<const StepRecord>;
using Findings = std::vector<Finding>;

// The window: long enough to smooth, short enough to describe the present.
constexpr size_t kWindowShare = 4;
constexpr size_t kLongestWindow = 100;
// Half of the information that a uniform choice carries.
constexpr double kCollapsedEntropy = 0.5;
// One expert takes every second slot.
constexpr double kOverloadedShare = 0.5;
// Loops that agree on 19 of 20 slots do the work of one.
constexpr double kSameChoice = 0.95;
// Stream RMS of a later visit of a layer over its first; scaled residuals keep it near 1.
constexpr double kStateGrowth = 4.0;
// Routers of all loops start as copies; overlap means little before this share of the run.
constexpr double kEarlyShare = 0.1;
// Shorter logs show the start of a run, not its course.
constexpr size_t kFewSteps = 20;
// Two windows of ten steps, and as many between them.
constexpr size_t kStallSteps = 40;
// Share of steps without an update.
constexpr double kManySkips = 0.01;

/// Mean of the finite ones among value(step) of some steps; NaN if there is none.
template <typename Value>
double finite_mean(Steps steps, Value value) {
  double sum = 0, count = 0;
  for (const StepRecord& step : steps) {
    const double v = value(step);
    if (!std::isfinite(v)) continue;
    sum += v;
    count += 1;
  }
  return count > 0 ? sum / count : std::nan("");
}

/// The load of one (loop, layer) summed over the window.
std::vector<double> window_load(Steps window, int64_t experts, int64_t cell) {
  std::vector<double> load(static_cast<size_t>(experts), 0);
  for (const StepRecord& step : window)
    for (int64_t e = 0; e < experts; ++e)
      load[static_cast<size_t>(e)] += static_cast<double>(step.load[static_cast<size_t>(cell * experts + e)]);
  return load;
}

std::vector<CellSummary> summarise(const RunLogHeader& h, Steps window) {
  std::vector<CellSummary> cells;
  for (int64_t loop = 0; loop < h.loops; ++loop) {
    for (int64_t layer = 0; layer < h.layers; ++layer) {
      const int64_t cell = loop * h.layers + layer;
      const auto at = static_cast<size_t>(cell);
      const std::vector<double> load = window_load(window, h.experts, cell);  // none without experts
      CellSummary c{loop, layer, false, normalised_entropy(load), largest_share(load), dead_experts(load)};
      c.block_rms = finite_mean(window, [at](const StepRecord& r) { return r.block_rms[at]; });
      double kept = 0, dropped = 0;
      for (const double slots : load) kept += slots;
      if (h.experts > 0)
        for (const StepRecord& step : window) dropped += static_cast<double>(step.dropped[at]);
      c.visited = kept + dropped > 0;
      c.dropped_share = kept + dropped > 0 ? dropped / (kept + dropped) : 0;
      if (h.experts > 0 && loop + 1 < h.loops) {
        c.overlap = finite_mean(window, [at](const StepRecord& r) { return r.overlap[at]; });
        c.chance = chance_overlap(load, window_load(window, h.experts, cell + h.layers), h.top_k);
      }
      cells.push_back(c);
    }
  }
  return cells;
}

std::string place(const CellSummary& c) {
  return fmt::format("loop {} layer {}", c.loop + 1, c.layer);
}

void find_collapse(const RunLog& log, const Diagnosis& d, Findings& findings) {
  // Loops that no step of the window ran (before growth, or beyond what was drawn) say nothing.
  std::vector<CellSummary> cells;
  std::copy_if(d.cells.begin(), d.cells.end(), std::back_inserter(cells), [](const auto& c) { return c.visited; });
  if (log.header.experts == 0 || cells.empty()) return;
  const auto lowest =
      std::min_element(cells.begin(), cells.end(), [](const auto& a, const auto& b) { return a.entropy < b.entropy; });
  const auto fullest = std::max_element(cells.begin(), cells.end(),
                                        [](const auto& a, const auto& b) { return a.largest_share < b.largest_share; });
  if (lowest->entropy < kCollapsedEntropy || fullest->largest_share > kOverloadedShare)
    findings.push_back(
        {Severity::kProblem,
         fmt::format("experts collapsed: entropy {:.2f} in {}, one expert takes {:.0f} % of the slots in {}",
                     lowest->entropy, place(*lowest), 100 * fullest->largest_share, place(*fullest)),
         "the router sends most tokens to few experts and nothing pulls them back",
         "raise train.balance_rate, or lower optimizer.learning_rate in the first steps"});
  int64_t dead = 0;
  for (const CellSummary& c : cells) dead += c.dead;
  if (dead > 0)
    findings.push_back({Severity::kWarning,
                        fmt::format("{} expert(s) got no slot in some loop and layer of the window", dead),
                        "too few tokens in the window, or experts that no router picks",
                        "look at the table; raise train.balance_rate if it lasts"});
}

void find_same_choice(const RunLog& log, const Diagnosis& d, Findings& findings) {
  if (log.header.loops < 2 || log.header.experts == 0) return;
  const auto same = std::max_element(d.cells.begin(), d.cells.end(),
                                     [](const auto& a, const auto& b) { return a.overlap < b.overlap; });
  if (!(same->overlap > kSameChoice)) return;
  const int64_t done = log.steps.back().step;
  const bool early = done <= log.header.warmup_steps ||
                     static_cast<double>(done) <= kEarlyShare * static_cast<double>(log.header.steps);
  if (early)
    findings.push_back(
        {Severity::kNote,
         fmt::format("too early to tell whether loops choose alike (overlap {:.3f} in {}, step {} of {})",
                     same->overlap, place(*same), done, log.header.steps),
         "the routers of all loops start as copies", "look again after the warm-up"});
  else
    findings.push_back({Severity::kWarning,
                        fmt::format("loops choose the same experts: overlap {:.3f} between loops {} and {} in layer "
                                    "{}, {:.3f} expected by chance",
                                    same->overlap, same->loop + 1, same->loop + 2, same->layer, same->chance),
                        "the routers have not separated, or the state hardly changes from loop to loop",
                        "train longer; check that the state moves (RMS in the table) and compare the loss by loop: "
                        "heddle eval --eval.loops"});
}

void find_broken_loss(const RunLog& log, Findings& findings) {
  const auto broken = [](const StepRecord& r) { return !std::isfinite(r.loss); };
  const auto first = std::find_if(log.steps.begin(), log.steps.end(), broken);
  if (first == log.steps.end()) return;
  const bool lasting = broken(log.steps.back());
  findings.push_back({lasting ? Severity::kProblem : Severity::kWarning,
                      fmt::format("loss is not finite in {} step(s), first at step {}, {}",
                                  std::count_if(first, log.steps.end(), broken), first->step,
                                  lasting ? "and still at the end" : "but finite again at the end"),
                      "the update before it was too large, or the state exploded",
                      "lower optimizer.learning_rate and resume from a checkpoint before that step"});
}

void find_growth(const Diagnosis& d, Findings& findings) {
  for (const CellSummary& c : d.cells) {
    const double before = d.cells[static_cast<size_t>(c.layer)].block_rms;
    if (!(c.block_rms > kStateGrowth * before)) continue;  // NaN is reported by the loss
    findings.push_back(
        {Severity::kProblem,
         fmt::format("the stream grows over the loops: RMS {:.2f} in loop 1, {:.2f} in loop {} of layer {}", before,
                     c.block_rms, c.loop + 1, c.layer),
         "each visit adds more than the norms take away",
         "lower residual.lambda (scaled scheme) or residual.multiplier, or set norms.loop_end"});
    return;
  }
}

void find_skips(const RunLog& log, Findings& findings) {
  const auto skips = [](const StepRecord& r) {
    return std::any_of(r.skipped.begin(), r.skipped.end(), [](int64_t s) { return s != 0; });
  };
  const auto skipped = std::count_if(log.steps.begin(), log.steps.end(), skips);
  if (skipped == 0) return;
  const bool many = static_cast<double>(skipped) > kManySkips * static_cast<double>(log.steps.size());
  findings.push_back({many ? Severity::kProblem : Severity::kWarning,
                      fmt::format("{} of {} steps made no update", skipped, log.steps.size()),
                      "gradients were not finite, or the spike guard stepped in", "lower optimizer.learning_rate"});
}

void find_stall(const RunLog& log, const Diagnosis& d, Findings& findings) {
  if (log.steps.size() < kStallSteps || log.steps.back().step <= 2 * log.header.warmup_steps) return;
  if (d.last_loss >= d.first_loss)
    findings.push_back(
        {Severity::kProblem,
         fmt::format("the loss did not fall: {:.4f} at the start, {:.4f} now", d.first_loss, d.last_loss),
         "the rate is too high or too low, or gradients do not reach the weights",
         "try optimizer.learning_rate three times lower, and higher"});
}

std::string verdict_of(const RunLog& log, Severity worst) {
  const int64_t step = log.steps.back().step;
  const std::string state =
      step >= log.header.steps ? "finished" : fmt::format("at step {} of {}", step, log.header.steps);
  if (worst == Severity::kProblem) return fmt::format("something is wrong ({})", state);
  if (worst == Severity::kWarning) return fmt::format("runs, with warnings ({})", state);
  if (log.steps.size() < kFewSteps)
    return fmt::format("nothing wrong so far, but too early to tell ({} steps in the log, {})", log.steps.size(),
                       state);
  return fmt::format("healthy ({})", state);
}

}  // namespace

const char* name_of(Severity severity) {
  if (severity == Severity::kProblem) return "problem";
  return severity == Severity::kWarning ? "warning" : "note";
}

Diagnosis diagnose(const RunLog& log) {
  Diagnosis d;
  if (log.steps.empty()) {
    d.verdict = "no step yet: nothing to diagnose";
    return d;
  }
  const size_t size = std::clamp<size_t>(log.steps.size() / kWindowShare, 1, kLongestWindow);
  const Steps window = Steps(log.steps).last(size);
  d.window = static_cast<int64_t>(size);
  d.cells = summarise(log.header, window);
  for (size_t t = 0; t < static_cast<size_t>(log.header.loops); ++t)
    d.state_rms.push_back(finite_mean(window, [t](const StepRecord& r) { return r.state_rms[t]; }));
  const auto loss = [](const StepRecord& r) { return r.loss; };
  d.first_loss = finite_mean(Steps(log.steps).first(size), loss);
  d.last_loss = finite_mean(window, loss);
  double tokens = 0, seconds = 0;
  for (const StepRecord& step : window) {
    tokens += step.tokens;
    seconds += step.step_seconds;
  }
  d.tokens_per_second = seconds > 0 ? tokens / seconds : 0;

  find_broken_loss(log, d.findings);
  find_growth(d, d.findings);
  find_skips(log, d.findings);
  find_collapse(log, d, d.findings);
  find_same_choice(log, d, d.findings);
  find_stall(log, d, d.findings);
  for (const Finding& f : d.findings) d.worst = std::max(d.worst, f.severity);
  d.verdict = verdict_of(log, d.worst);
  return d;
}

namespace {
std::string render(const Findings& findings) {
  std::string text;
  for (const Finding& f : findings)
    text += fmt::format("{}: {}\n  cause: {}\n  fix: {}\n", name_of(f.severity), f.what, f.cause, f.fix);
  return text;
}
}  // namespace

std::string render(const RunLog& log, const Diagnosis& d) {
  std::string text = fmt::format("verdict: {}\n", d.verdict);
  if (log.steps.empty()) return text;
  text += fmt::format("loss {:.4f} -> {:.4f} nats per token (means over {} steps), {:.0f} tokens/s\n", d.first_loss,
                      d.last_loss, d.window, d.tokens_per_second);
  if (!log.validations.empty())
    text += fmt::format("validation {:.4f} bits per byte after step {}\n", log.validations.back().bits_per_byte,
                        log.validations.back().step);
  if (log.header.experts == 0) {
    text += fmt::format("loops over the last {} steps (no experts):\n", d.window);
    TextTable loops({{"loop"}, {"layer"}, {"RMS after block"}});
    for (const CellSummary& c : d.cells)
      loops.add_row({fmt::format("{}", c.loop + 1), fmt::format("{}", c.layer), fmt::format("{:.3f}", c.block_rms)});
    return text + loops.render() + render(d.findings);
  }
  text +=
      fmt::format("routing over the last {} steps ({} experts, {} per token; uniform chance of an overlap {:.3f}):\n",
                  d.window, log.header.experts, log.header.top_k,
                  static_cast<double>(log.header.top_k) / static_cast<double>(log.header.experts));
  TextTable table({{"loop"},
                   {"layer"},
                   {"entropy"},
                   {"largest share"},
                   {"dead"},
                   {"dropped"},
                   {"overlap with next loop"},
                   {"by chance"},
                   {"RMS before norm"}});
  for (const CellSummary& c : d.cells) {
    if (!c.visited) {
      table.add_row(
          {fmt::format("{}", c.loop + 1), fmt::format("{}", c.layer), "not run", "-", "-", "-", "-", "-", "-"});
      continue;
    }
    const bool no_next = c.loop + 1 == log.header.loops || std::isnan(c.overlap);
    table.add_row({fmt::format("{}", c.loop + 1), fmt::format("{}", c.layer), fmt::format("{:.3f}", c.entropy),
                   fmt::format("{:.1f}%", 100 * c.largest_share), fmt::format("{}", c.dead),
                   fmt::format("{:.1f}%", 100 * c.dropped_share), no_next ? "-" : fmt::format("{:.3f}", c.overlap),
                   no_next ? "-" : fmt::format("{:.3f}", c.chance), fmt::format("{:.3f}", c.block_rms)});
  }
  return text + table.render() + render(d.findings);
}

}  // namespace heddle
