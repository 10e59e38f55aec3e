// The first section of a report and its last: facts, verdicts, and configurations beside each other.
#pragma once

#include "report/sections.h"

namespace heddle::report {

/// [[what, [text of each run]], ...]
Json facts(const std::vector<Run>& runs);
/// [{"run", "verdict", "worst", "findings": [{"severity", "what", "cause", "fix"}], "missing": [text, ...]}, ...]
Json verdicts(const std::vector<Run>& runs);
/// [[key, [value of each run, or null where it has none], whether they differ], ...]
Json configurations(const std::vector<Run>& runs);

}  // namespace heddle::report
