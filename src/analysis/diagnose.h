// A first reading of a run's log: what the loops and experts do, and what is wrong.
#pragma once

#include <string>
#include <vector>

#include "analysis/run_log.h"

namespace heddle {

enum class Severity { kNote, kWarning, kProblem };
const char* name_of(Severity severity);  ///< "note", "warning", "problem"

struct Finding {
  Severity severity = Severity::kNote;
  std::string what;  ///< with the numbers it rests on
  std::string cause, fix;
};

/// Means over the last quarter of the steps, at most 100 of them, at least one. RMS and losses leave out values that
/// are not finite (one skipped step must not hide the others); they are NaN if none is finite.
struct CellSummary {
  int64_t loop = 0, layer = 0;  ///< from 0
  bool visited = false;         ///< some step of the window routed tokens here; false also without experts
  double entropy = 0;           ///< normalised
  double largest_share = 0;
  int64_t dead = 0;          ///< experts without a slot in the whole window
  double dropped_share = 0;  ///< of the wanted slots
  double overlap = -1;       ///< with the next loop; -1: last loop, NaN: no step ran the next one
  double chance = 0;         ///< overlap expected from the loads alone
  double block_rms = 0;      ///< RMS of the stream before the block's last norm
};

struct Diagnosis {
  std::string verdict;  ///< one line
  Severity worst = Severity::kNote;
  int64_t window = 0;                    ///< steps summarised
  double first_loss = 0, last_loss = 0;  ///< means over the first and the last `window` steps
  double tokens_per_second = 0;
  std::vector<CellSummary> cells;  ///< [loops * layers], loop-major
  std::vector<double> state_rms;   ///< [loops]
  std::vector<Finding> findings;
};

/// Works at any length of a log: without a step there are no cells, and a short log says so in the verdict.
Diagnosis diagnose(const RunLog& log);
std::string render(const RunLog& log, const Diagnosis& diagnosis);  ///< for the terminal

}  // namespace heddle
