// What every subcommand gets, and the subcommands themselves: one file each.
#pragma once

#include <string>
#include <vector>

#include "comm/job.h"

namespace heddle {

using Arguments = std::vector<std::string>;

/// Each returns the exit status. Arguments are those behind the subcommand's name.
int run_train_command(Job& job, const Arguments& arguments);
int run_eval_command(Job& job, const Arguments& arguments);
int run_probe_command(Job& job, const Arguments& arguments);
int run_generate_command(Job& job, const Arguments& arguments);
int run_verify_command(Job& job, const Arguments& arguments);

}  // namespace heddle
