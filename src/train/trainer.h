// A training run: from a configuration and a token store to checkpoints and a log.
//   RUN/config.ini            resolved configuration
//   RUN/log.h5                run log (docs/run_log.md)
//   RUN/checkpoints/          checkpoint.h
#pragma once

#include <string>

#include "comm/job.h"
#include "device/device.h"
#include "train/evaluation.h"
#include "train/train_config.h"

namespace heddle {

struct TrainOutcome {
  int64_t steps_done = 0;               ///< global steps of the run so far
  double validation_bits_per_byte = 0;  ///< 0 without a validation
  double tokens_per_second = 0;         ///< mean over this session's steps
  int64_t peak_bytes = 0;               ///< largest tensor memory of a rank
  std::string checkpoint;               ///< last one written
  bool stopped = false;                 ///< a signal ended the session before its last step
};

/// Runs until train.steps or run.stop_after. `resolved` is the configuration as text. Collective; throws Error or
/// UsageError, some of them on one rank only.
TrainOutcome train(Job& job, TrainConfig config, const std::string& resolved, const Device& device);

}  // namespace heddle
