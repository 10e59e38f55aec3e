// A report on runs: one HTML file that opens from disk, with charts of what loops, layers and experts did
// (docs/report.md).
#pragma once

#include <string>
#include <vector>

#include "report/sections.h"

namespace heddle::report {

/// Reads RUN/log.h5, also of a run in progress, and RUN/probe.json if it is there. A folder's name names the run;
/// folders of one name keep their path. Throws Error naming the file that is missing or damaged.
std::vector<Run> open_runs(const std::vector<std::string>& folders);

/// Everything that the page shows: {"runs", "facts", "verdicts", "sections", "configuration", "tables"}.
Json report_data(const std::vector<Run>& runs);

/// The page with its data, scripts and styles inside. It loads nothing.
std::string page(const Json& data);

/// JSON as the content of a <script>: no character in it can end the element or open a comment. Bytes that are not
/// UTF-8 become U+FFFD.
std::string script_safe(const Json& data);

}  // namespace heddle::report
