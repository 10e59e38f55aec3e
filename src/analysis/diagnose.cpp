#include "analysis/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "analysis/findings.h"
#include "analysis/routing_metrics.h"
#include "analysis/thresholds.h"

namespace heddle {

namespace {

using Steps = std::span<const StepRecord>;
using Looks = std::span<const StatisticsRecord>;

/// Mean of the finite ones among value(record) of some records; NaN if there is none.
template <typename Record, typename Value>
double finite_mean(std::span<const Record> records, Value value) {
  double sum = 0, count = 0;
  for (const Record& record : records) {
    const double v = value(record);
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

/// The looks of the window, or the last one before it.
Looks looks_of(const RunLog& log, Steps window) {
  const auto first = std::find_if(log.looks.begin(), log.looks.end(),
                                  [&](const StatisticsRecord& r) { return r.step >= window.front().step; });
  const auto count = static_cast<size_t>(log.looks.end() - first);
  return Looks(log.looks).last(count > 0 ? count : std::min<size_t>(log.looks.size(), 1));
}

CellSummary summarise_cell(const RunLogHeader& h, Steps window, Looks looks, int64_t loop, int64_t layer) {
  const auto at = static_cast<size_t>(loop * h.layers + layer);
  CellSummary c;
  c.loop = loop;
  c.layer = layer;
  c.block_rms = finite_mean(window, [at](const StepRecord& r) { return r.block_rms[at]; });
  c.overlap = c.chance = c.flipped = c.router_logit_max = c.router_agreement = c.state_agreement = c.distinct =
      std::nan("");
  if (h.experts == 0) return c;
  const std::vector<double> load = window_load(window, h.experts, static_cast<int64_t>(at));
  double kept = 0, dropped = 0;
  for (const double slots : load) kept += slots;
  for (const StepRecord& step : window) dropped += static_cast<double>(step.dropped[at]);
  c.visited = kept + dropped > 0;
  c.entropy = normalised_entropy(load);
  c.largest_share = largest_share(load);
  c.dead = kept / static_cast<double>(h.experts) >= thresholds::kExpectedLoad ? dead_experts(load) : 0;
  c.dropped_share = kept + dropped > 0 ? dropped / (kept + dropped) : 0;
  if (loop > 0) {
    const auto before = at - static_cast<size_t>(h.layers);
    c.overlap = finite_mean(window, [before](const StepRecord& r) { return r.overlap[before]; });
    c.chance = chance_overlap(window_load(window, h.experts, static_cast<int64_t>(before)), load, h.top_k);
  }
  const auto look = [&](const std::vector<double> StatisticsRecord::*member) {
    return finite_mean(looks, [&](const StatisticsRecord& r) { return (r.*member)[at]; });
  };
  c.flipped = look(&StatisticsRecord::flipped);
  c.router_logit_max = look(&StatisticsRecord::router_logit_max);
  c.router_agreement = look(&StatisticsRecord::router_agreement);
  c.state_agreement = look(&StatisticsRecord::state_agreement);
  c.distinct = look(&StatisticsRecord::distinct);
  return c;
}

LoopSummary summarise_loop(Steps window, Looks looks, size_t loop) {
  const auto look = [&](const std::vector<double> StatisticsRecord::*member, size_t at) {
    return finite_mean(looks, [&](const StatisticsRecord& r) { return (r.*member)[at]; });
  };
  LoopSummary s;
  s.state_rms = finite_mean(window, [loop](const StepRecord& r) { return r.state_rms[loop]; });
  s.update_rms = look(&StatisticsRecord::update_rms, loop);
  s.relative_update = look(&StatisticsRecord::relative_update, loop);
  for (size_t back = 0; back < 3; ++back) s.cosine_back[back] = look(&StatisticsRecord::cosine_back, loop * 3 + back);
  s.cosine_embedding = look(&StatisticsRecord::cosine_embedding, loop);
  s.token_cosine = look(&StatisticsRecord::token_cosine, loop);
  return s;
}

void summarise(const RunLogHeader& h, Steps window, Looks looks, Diagnosis& d) {
  d.window = static_cast<int64_t>(window.size());
  d.looks = static_cast<int64_t>(looks.size());
  for (int64_t loop = 0; loop < h.loops; ++loop) {
    for (int64_t layer = 0; layer < h.layers; ++layer) d.cells.push_back(summarise_cell(h, window, looks, loop, layer));
    d.loops.push_back(summarise_loop(window, looks, static_cast<size_t>(loop)));
  }
  if (h.experts == 0) return;
  for (int64_t layer = 0; layer < h.layers; ++layer) {
    std::vector<std::vector<double>> loads;
    for (int64_t loop = 0; loop < h.loops; ++loop)
      loads.push_back(window_load(window, h.experts, loop * h.layers + layer));
    d.loop_information.push_back(loop_information(loads));
  }
  if (looks.empty()) return;
  for (size_t p = 0; p < static_cast<size_t>(h.loops * h.loops * h.layers); ++p)
    d.pair_overlap.push_back(finite_mean(looks, [p](const StatisticsRecord& r) { return r.pair_overlap[p]; }));
}

std::string verdict_of(const RunLog& log, Severity worst) {
  const int64_t step = log.steps.back().step;
  const std::string state =
      step >= log.header.steps ? "finished" : fmt::format("at step {} of {}", step, log.header.steps);
  if (worst == Severity::kProblem) return fmt::format("something is wrong ({})", state);
  if (worst == Severity::kWarning) return fmt::format("runs, with warnings ({})", state);
  if (log.steps.size() < thresholds::kFewSteps)
    return fmt::format("nothing wrong so far, but too early to tell ({} steps in the log, {})", log.steps.size(),
                       state);
  return fmt::format("healthy ({})", state);
}

}  // namespace

const char* name_of(Severity severity) {
  if (severity == Severity::kProblem) return "problem";
  return severity == Severity::kWarning ? "warning" : "note";
}

bool is_early(const RunLog& log) {
  const int64_t done = log.steps.back().step;
  return done <= log.header.warmup_steps ||
         static_cast<double>(done) <= thresholds::kEarlyShare * static_cast<double>(log.header.steps);
}

std::string place(const CellSummary& c) {
  return fmt::format("loop {} layer {}", c.loop + 1, c.layer);
}

Diagnosis diagnose(const RunLog& log, const ProbeResult* probe) {
  Diagnosis d;
  if (log.steps.empty()) {
    d.verdict = "no step yet: nothing to diagnose";
    return d;
  }
  const size_t size = std::clamp<size_t>(log.steps.size() / thresholds::kWindowShare, 1, thresholds::kLongestWindow);
  const Steps window = Steps(log.steps).last(size);
  summarise(log.header, window, looks_of(log, window), d);
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
  find_collapsed_experts(log, d, d.findings);
  find_dead_experts(d, d.findings);
  find_same_choice(log, d, probe, d.findings);
  find_states(log, d, d.findings);
  if (probe != nullptr) {
    find_wasted_loops(*probe, d.findings);
    find_aligned_visits(*probe, d.findings);
  }
  find_stall(log, d, d.findings);
  for (const Finding& f : d.findings) d.worst = std::max(d.worst, f.severity);
  d.verdict = verdict_of(log, d.worst);
  return d;
}

std::vector<Finding> alarms(const RunLogHeader& header, const StepRecord& step, const StatisticsRecord& look) {
  RunLog one;
  one.header = header;
  one.steps = {step};
  one.looks = {look};
  Diagnosis d;
  summarise(header, Steps(one.steps), Looks(one.looks), d);
  Findings findings;
  find_broken_loss(one, findings);
  find_growth(d, findings);
  find_collapsed_experts(one, d, findings);
  find_same_choice(one, d, nullptr, findings);
  find_states(one, d, findings);
  findings.erase(
      std::remove_if(findings.begin(), findings.end(), [](const Finding& f) { return f.severity == Severity::kNote; }),
      findings.end());
  return findings;
}

}  // namespace heddle
