// The files of a run that rank 0 looks after at the start: what may be resumed, whether the data is whole, and the log.
#pragma once

#include <string>
#include <vector>

#include "analysis/run_log.h"
#include "data/token_store.h"

namespace heddle {

/// Complete checkpoints of a run, newest first; warns about others. Throws Error where there is a run that was not to
/// be resumed, or only a damaged one: starting from step 0 would replace the log of its steps.
std::vector<std::string> find_checkpoints(const std::string& directory, bool resume);

/// Reads a store of up to 1 GiB of tokens and compares its hash: damaged tokens would be trained on without a sign.
/// Says so where a larger one is left out.
void verify_store(const TokenStore& store);

/// A new log, or the one that is there, cut behind step `done`.
RunLogWriter open_run_log(const std::string& path, const RunLogHeader& header, int64_t done);

}  // namespace heddle
