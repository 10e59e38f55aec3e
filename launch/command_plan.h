// heddle plan: what a configuration costs, by formula, without data, ranks or memory.
#pragma once

#include <string>
#include <vector>

namespace heddle {

/// plan CONFIG [--json] [--section.key VALUE]...
int run_plan_command(const std::vector<std::string>& arguments);

}  // namespace heddle
