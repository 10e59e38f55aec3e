// heddle inspect: what is in a file that Heddle wrote, and whether it is whole.
#pragma once

#include <string>
#include <vector>

namespace heddle {

/// inspect FILE [--check] [--json FILE]; returns ExitStatus::kMismatch if --check finds damage.
int run_inspect_command(const std::vector<std::string>& arguments);

}  // namespace heddle
