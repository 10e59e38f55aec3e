// A reading of a run's log: what the loops and experts do, and what is wrong (docs/diagnosing.md).
#pragma once

#include <string>
#include <vector>

#include "analysis/probe_result.h"
#include "analysis/run_log.h"

namespace heddle {

enum class Severity { kNote, kWarning, kProblem };
const char* name_of(Severity severity);  ///< "note", "warning", "problem"

struct Finding {
  Severity severity = Severity::kNote;
  std::string kind;  ///< for scripts, e.g. "experts_collapsed"; docs/diagnosing.md lists them
  std::string what;  ///< with the numbers it rests on
  std::string cause, fix;
};

/// One visit of a layer. Means over the window: the last quarter of the steps, at most 100 of them, at least one; of
/// the looks, those in it, or the last one before. What is not finite is left out (one skipped step must not hide the
/// others); NaN if nothing is finite, or nothing was run.
struct CellSummary {
  int64_t loop = 0, layer = 0;  ///< from 0
  bool visited = false;         ///< some step of the window routed tokens here; false also without experts
  double entropy = 0;           ///< normalised
  double largest_share = 0;
  int64_t dead = 0;          ///< experts without a slot in the whole window, where each could expect 100
  double dropped_share = 0;  ///< of the wanted slots
  double block_rms = 0;      ///< RMS of the stream before the block's last norm
  double overlap = 0;        ///< with the loop before, |both| / k; NaN in the first loop
  double chance = 0;         ///< of that overlap, from the loads alone; NaN in the first loop
  // From the looks.
  double flipped = 0, router_logit_max = 0;  ///< docs/run_log.md
  double router_agreement = 0;               ///< what the router of the loop before would choose here, too
  double state_agreement = 0;                ///< the overlap, had the router stayed that of the loop before
  double distinct = 0;                       ///< experts that a token has met so far
};

/// The state at the end of one loop.
struct LoopSummary {
  double state_rms = 0, update_rms = 0, relative_update = 0;
  double cosine_back[3] = {};
  double cosine_embedding = 0, token_cosine = 0;
};

struct Diagnosis {
  std::string verdict;  ///< one line
  Severity worst = Severity::kNote;
  int64_t window = 0;                    ///< steps summarised
  int64_t looks = 0;                     ///< looks summarised; 0: the log has none
  double first_loss = 0, last_loss = 0;  ///< means over the first and the last `window` steps
  double tokens_per_second = 0;
  std::vector<CellSummary> cells;    ///< [loops * layers], loop-major
  std::vector<LoopSummary> loops;    ///< [loops]
  std::vector<double> pair_overlap;  ///< [loops, loops, layers]; empty without looks or experts
  std::vector<double>
      loop_information;  ///< [layers] mutual information of expert and loop, nats; empty without experts
  std::vector<Finding> findings;
};

/// Works at any length of a log: without a step there are no cells, and a short log says so in the verdict. probe: what
/// heddle probe found on a checkpoint of the run, or null: some verdicts need it.
Diagnosis diagnose(const RunLog& log, const ProbeResult* probe = nullptr);

/// Problems that one step with a look shows by itself, for a run that goes on.
std::vector<Finding> alarms(const RunLogHeader& header, const StepRecord& step, const StatisticsRecord& look);

std::string render(const RunLog& log, const Diagnosis& diagnosis);  ///< for the terminal

}  // namespace heddle
