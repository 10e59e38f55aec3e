// A probe's results as tables for the terminal. Loops, layers and experts are numbered from 0, as in the file.
#pragma once

#include <string>

#include "analysis/probe_result.h"

namespace heddle {

/// Parts without entries are left out.
std::string render(const ProbeResult& result);

}  // namespace heddle
