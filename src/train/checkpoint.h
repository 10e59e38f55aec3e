// Checkpoints: one HDF5 file of global tensors that does not know how many ranks wrote it.
//   /model/<name>              float32, global shape; balance biases included
//   /optimizer/first/<name>, /optimizer/second/<name>, /optimizer/steps/<name> (int64 scalar)
//   /spike_guard/baseline      float64 [segments], NaN where none yet
//   /tokenizer                 uint8, serialised tokenizer (empty if the run had none)
//   attributes of "/": format_version, step (global steps done), config (INI text), tokenizer_kind,
//                      tokenizer_fingerprint, data_hash
// Published as step_<n>.h5 by temporary file, fsync and rename; then a marker step_<n>.complete with the size. A file
// without marker, or of another size, is never read by resume. The data position is a function of the step.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/loom.h"
#include "optim/optimizer.h"
#include "support/hdf5.h"
#include "train/spike_guard.h"

namespace heddle {

/// What a checkpoint says about itself besides tensors.
struct CheckpointInfo {
  int64_t step = 0;
  std::string config;
  std::string tokenizer_kind, tokenizer_fingerprint, tokenizer;
  std::string data_hash;
};

/// Writes a checkpoint into `folder` and removes all but the newest `keep` complete ones. Refuses to publish tensors
/// that are not finite. Returns the path. Collective; a failure throws on every rank and leaves older files alone.
std::string save_checkpoint(const std::string& folder, int64_t keep, const CheckpointInfo& info, Loom& model,
                            Optimizer& optimizer, SpikeGuard& spike_guard);

/// Newest complete checkpoint of a folder (files that are not complete are reported by name in `ignored`).
std::optional<std::string> newest_checkpoint(const std::string& folder, std::vector<std::string>* ignored = nullptr);

/// Reads only the attributes and the tokenizer. Throws Error for other files.
CheckpointInfo read_checkpoint_info(const std::string& path);

/// Reads this rank's part of the weights; shapes must be those of the model, the error names the first that is not.
void load_model(const std::string& path, Loom& model);
/// Reads moments, step counts and spike baselines; every one must be there.
void load_training_state(const std::string& path, Loom& model, Optimizer& optimizer, SpikeGuard& spike_guard);

}  // namespace heddle
