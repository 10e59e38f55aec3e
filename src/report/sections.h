// What a report shows, in sections of figures. A figure is {"id", "title", "note", "charts"}, with one chart over all
// runs or one for each; a chart that a run has no numbers for is {"missing": how to get them}.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/probe_result.h"
#include "analysis/run_log.h"
#include "report/table.h"

namespace heddle::report {

struct Run {
  std::string name;
  RunLog log;
  std::optional<ProbeResult> probe;
};

/// Each returns {"id", "title", "figures"} and adds the tables that its charts name to `tables`.
Json training_section(const std::vector<Run>& runs, Json& tables);
Json routing_section(const std::vector<Run>& runs, Json& tables);
Json state_section(const std::vector<Run>& runs, Json& tables);
Json probe_section(const std::vector<Run>& runs, Json& tables);
Json memory_section(const std::vector<Run>& runs, Json& tables);

}  // namespace heddle::report
