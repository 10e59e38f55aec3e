// heddle train: start a run, or go on with it.
#include <nlohmann/json.hpp>

#include "comm/call_watchdog.h"
#include "device/device.h"
#include "launch/program.h"
#include "support/atomic_file.h"
#include "support/log.h"
#include "train/trainer.h"

namespace heddle {

int run_train_command(Job& job, const Arguments& arguments) {
  TrainConfig settings;
  Config config;
  settings.declare(config);
  if (asks_for_help(arguments)) {
    log_line("usage: heddle train --config FILE [--section.key VALUE]...\n\n" + config.help());
    return static_cast<int>(ExitStatus::kOk);
  }
  if (const Arguments rest = config.parse(arguments); !rest.empty())
    throw UsageError(fmt::format("train takes no argument '{}'", rest[0]), "flags are --section.key VALUE");
  settings.validate();
  require_writable_target(settings.summary);
  const std::string resolved = config.resolved();
  log_line("configuration:\n" + resolved);
  set_collective_timeout(settings.collective_timeout);
  const std::unique_ptr<OpenDevice> device = open_device(job, settings.device, settings.precision);
  const TrainOutcome outcome = train(job, settings, resolved, device->device());
  if (!settings.summary.empty() && job.world().rank() == 0)
    publish_text(settings.summary, nlohmann::json{{"steps", outcome.steps_done},
                                                  {"validation_bits_per_byte", outcome.validation_bits_per_byte},
                                                  {"tokens_per_second", outcome.tokens_per_second},
                                                  {"peak_bytes", outcome.peak_bytes},
                                                  {"checkpoint", outcome.checkpoint},
                                                  {"stopped", outcome.stopped}}
                                           .dump(2) +
                                       "\n");
  return static_cast<int>(outcome.stopped ? ExitStatus::kStopped : ExitStatus::kOk);
}

}  // namespace heddle
