// The "heddle data" commands: build, show and measure token stores; import the demonstration corpus.
#pragma once

#include <string>
#include <vector>

namespace heddle {

/// Runs "heddle data ARGUMENTS..." and returns the exit status. Throws UsageError and Error.
///   data build INPUT... -o STORE [--validation PATH]... [--other PATH]... [--force] [--data.KEY VALUE]...
///   data show STORE [--verify]
///   data baselines STORE [--json FILE]
///   data classics ROOT -o FOLDER
int run_data_command(std::vector<std::string> arguments);

}  // namespace heddle
