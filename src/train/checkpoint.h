// Checkpoints: one HDF5 file of global tensors that does not know how many ranks wrote it.
//   /model/<name>              float32, global shape; balance biases included
//   /optimizer/first/<name>, /optimizer/second/<name>
//                              float32: moments, where the parameter's rule has them. first, and AdamW's second, have
//                              the weights' shape; Muon's second [matrices, longer side]
//   /optimizer/target/<name>   float32 [matrices], MuonH: norms that are kept
//   /optimizer/steps/<name>    int64 scalar
//                              attribute "checksum" of every float32 tensor: support/hash.h, position_checksum
//   /spike_guard/baseline      float64 [segments], NaN where none yet
//   /index                     uint8, names of the datasets above, one a line
//   /tokenizer                 uint8, serialised tokenizer (empty if the run had none)
//   attributes of "/": format_version, step (global steps done), config (INI text), optimizer, tokenizer_kind,
//                      tokenizer_fingerprint, data_hash, description_hash (of all that is no tensor)
// Published as step_<n>.h5 by temporary file, fsync and rename; then a marker step_<n>.complete with the size. A file
// without marker, or of another size, is never read by resume. The data position is a function of the step.
#pragma once

#include <string>
#include <vector>

#include "model/looped_model.h"
#include "optim/optimizer.h"
#include "train/checkpoint_tensors.h"
#include "train/spike_guard.h"

namespace heddle {

/// What a checkpoint says about itself besides tensors.
struct CheckpointInfo {
  int64_t step = 0;
  std::string config;
  std::string tokenizer_kind, tokenizer_fingerprint, tokenizer;
  std::string data_hash;
};

/// Who writes the tensors: all ranks together where the file system can, or else rank 0; or one of the two only.
enum class CheckpointWriter { kAuto, kParallel, kOne };

/// Writes a checkpoint into `folder` and removes all but the newest `keep` complete ones, among which those in
/// `damaged` (files that did not fit their checksums) are not counted. Refuses to publish tensors that are not finite.
/// Returns the path. Collective; a failure throws on every rank and leaves older files alone.
std::string save_checkpoint(const std::string& folder, int64_t keep, CheckpointWriter writer,
                            const CheckpointInfo& info, LoopedModel& model, Optimizer& optimizer,
                            SpikeGuard& spike_guard, const std::vector<std::string>& damaged = {});

/// The marker beside the file names its size.
bool checkpoint_is_complete(const std::string& path);

/// Complete checkpoints of a folder, newest step first; files that are not complete are reported in `ignored`.
std::vector<std::string> complete_checkpoints(const std::string& folder, std::vector<std::string>* ignored = nullptr);

/// Reads only the attributes and the tokenizer. Throws Error for other files.
CheckpointInfo read_checkpoint_info(const std::string& path);

/// Reads this rank's part of the weights; shapes must be those of the model and checksums must hold, the error names
/// the first that do not (DamagedCheckpoint, on every rank). Collective.
void load_model(const std::string& path, LoopedModel& model);
/// Reads moments, target norms, step counts and spike baselines; every one must be there. Collective.
void load_training_state(const std::string& path, LoopedModel& model, Optimizer& optimizer, SpikeGuard& spike_guard);

/// Names of the datasets that hold tensors.
std::vector<std::string> checkpoint_tensors(const std::string& path);
/// Reads everything and compares checksums; returns what is wrong, nothing for a file that is whole. Throws Error for
/// other files.
std::vector<std::string> check_checkpoint(const std::string& path);

}  // namespace heddle
