// A model from a checkpoint or from the newest one of a run, for the commands that use but do not train it.
#pragma once

#include <memory>

#include "data/token_store.h"
#include "launch/program.h"
#include "train/checkpoint.h"
#include "train/train_config.h"

namespace heddle {

struct LoadedModel {
  std::string path;  ///< of the checkpoint
  CheckpointInfo info;
  TrainConfig config;  ///< of the run that wrote it
  std::unique_ptr<ProcessGroups> groups;
  std::unique_ptr<LoopedModel> model;
  /// Throws Error for a store whose ids mean other text than those of the checkpoint.
  void require_same_tokenizer(const TokenStore& store) const;
};

/// `where`: a checkpoint file or a run's folder. The vocabulary is that of the stored embedding. Collective.
LoadedModel open_model(Job& job, const std::string& where, int expert_parallel, const Kernels& kernels);

}  // namespace heddle
