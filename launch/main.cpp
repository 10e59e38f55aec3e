// heddle: one program, one file per subcommand. This is the one place that turns an error into the end of the whole
// job.
#include <cstdio>
#include <exception>
#include <optional>

#include "launch/command_data.h"
#include "launch/command_diagnose.h"
#include "launch/command_inspect.h"
#include "launch/command_plan.h"
#include "launch/command_report.h"
#include "launch/program.h"
#include "support/error.h"
#include "support/log.h"
#include "support/stop_signal.h"

namespace heddle {

namespace {

constexpr const char* kUsage = R"(heddle: pretraining of looped language models, dense or with experts

usage: heddle COMMAND [arguments]          (several ranks: launch/heddle-mpirun -n RANKS -- heddle COMMAND ...)

  data build | show | baselines | classics    text to a token store, and a look at it
  plan CONFIG [--section.key VALUE]           parameters and operations of a configuration
  train --config FILE [--section.key VALUE]   train, or go on with a run
  eval CHECKPOINT|RUN                         loss at one or many loop counts
  probe CHECKPOINT|RUN                        what its loops, blocks, experts and routers are for
  generate CHECKPOINT|RUN --prompt TEXT       text from a checkpoint
  diagnose RUN                                what a run's log says about its loops and experts
  report RUN... -o FILE                       charts of runs beside each other, one HTML file
  inspect FILE                                what a store, checkpoint or log holds, and whether it is whole
  verify CASE_DIR...                          reference cases against this build and device

heddle COMMAND --help lists the keys of a command.
exit status: 0 fine, 1 the work failed (verify: a case is out of tolerance or cannot be read), 2 wrong usage or
             configuration, 3 diagnose or inspect found a problem, 4 train was stopped by a signal and has saved
)";

bool works_alone(const std::string& command) {
  return command == "data" || command == "diagnose" || command == "inspect" || command == "plan" || command == "report";
}

/// Commands that never start MPI.
int run_alone(const std::string& command, const Arguments& arguments) {
  const LauncherEnvironment launcher = launcher_environment();
  if (launcher.present && launcher.size > 1)
    throw UsageError(
        fmt::format("heddle {} works alone, but {} says {} processes", command, launcher.variable, launcher.size),
        "start it without mpirun");
  if (command == "data") return run_data_command(arguments);
  if (command == "plan") return run_plan_command(arguments);
  if (command == "report") return run_report_command(arguments);
  return command == "inspect" ? run_inspect_command(arguments) : run_diagnose_command(arguments);
}

int run_in_job(Job& job, const std::string& command, const Arguments& arguments) {
  if (command == "train") return run_train_command(job, arguments);
  if (command == "eval") return run_eval_command(job, arguments);
  if (command == "probe") return run_probe_command(job, arguments);
  if (command == "generate") return run_generate_command(job, arguments);
  return run_verify_command(job, arguments);
}

bool needs_job(const std::string& command) {
  return command == "train" || command == "eval" || command == "probe" || command == "generate" || command == "verify";
}

std::string text_of(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  return ours == nullptr || ours->hint().empty() ? error.what()
                                                 : fmt::format("{}\n  hint: {}", error.what(), ours->hint());
}

ExitStatus status_of(const std::exception& error) {
  return dynamic_cast<const UsageError*>(&error) != nullptr ? ExitStatus::kUsage : ExitStatus::kFailure;
}

int run(const Arguments& all) {
  if (all.empty() || all[0] == "--help" || all[0] == "help") {
    std::fputs(kUsage, all.empty() ? stderr : stdout);
    return static_cast<int>(all.empty() ? ExitStatus::kUsage : ExitStatus::kOk);
  }
  const std::string& command = all[0];
  const Arguments arguments(all.begin() + 1, all.end());
  try {
    if (works_alone(command)) return run_alone(command, arguments);
    if (!needs_job(command))
      throw UsageError(fmt::format("there is no command '{}'", command), "heddle --help lists them");
  } catch (const std::exception& error) {
    log_error(text_of(error));
    return static_cast<int>(status_of(error));
  }
  std::unique_ptr<Job> job;
  std::optional<StopSignal> signal;
  try {
    if (command == "train") signal.emplace();  // before MPI starts threads
    job = std::make_unique<Job>();
    return run_in_job(*job, command, arguments);
  } catch (const std::exception& error) {
    // Other ranks may wait for this one in a collective: the job ends here, not only this process.
    if (job != nullptr) job->abort(text_of(error), static_cast<int>(status_of(error)));
    log_error(text_of(error));
    return static_cast<int>(status_of(error));
  }
}

}  // namespace

}  // namespace heddle

int main(int argc, char** argv) {
  return heddle::run(heddle::Arguments(argv + 1, argv + argc));
}
