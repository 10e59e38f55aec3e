// heddle diagnose: what a run's log says.
#pragma once

#include <string>
#include <vector>

namespace heddle {

/// diagnose RUN|LOG [--json FILE]; returns ExitStatus::kMismatch if a problem was found.
int run_diagnose_command(const std::vector<std::string>& arguments);

}  // namespace heddle
