// The records of a run log as TensorBoard's scalars and histograms: one event file per session in RUN/tensorboard
// (docs/report.md). Loops count from 1 and layers from 0 in tags.
#pragma once

#include <string>

#include "analysis/event_file.h"
#include "analysis/run_log.h"

namespace heddle {

class TensorboardLog {
 public:
  /// A new file in `folder`, which is made where it is not there, of a session that starts behind step `done`: readers
  /// drop what files of earlier sessions hold of later steps. Throws Error.
  TensorboardLog(const std::string& folder, const RunLogHeader& header, int64_t done);

  /// All throw Error when the record was not written. What is not finite is left out.
  /// In the first step of a session and where looks are due, also every loop and layer by itself.
  void append(const StepRecord& record);
  void append(const StatisticsRecord& record);
  void append(const MemoryRecord& record);
  void append(const ValidationRecord& record);

 private:
  void write(double time, int64_t step, const EventValues& values);
  RunLogHeader header_;
  int64_t first_step_;
  EventFile file_;
};

}  // namespace heddle
