// heddle report: one HTML file on one or several runs.
#pragma once

#include <string>
#include <vector>

namespace heddle {

/// report RUN... -o FILE
int run_report_command(const std::vector<std::string>& arguments);

}  // namespace heddle
