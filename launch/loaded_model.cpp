#include "launch/loaded_model.h"

#include <filesystem>

#include "support/hdf5.h"
#include "support/log.h"

namespace heddle {

namespace {

std::string checkpoint_of(const std::string& where) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(where)) return where;
  std::vector<std::string> ignored;
  const std::vector<std::string> complete = complete_checkpoints((fs::path(where) / "checkpoints").string(), &ignored);
  for (const std::string& file : ignored) log_warning(fmt::format("ignoring '{}': it is not complete", file));
  if (complete.empty())
    throw Error(fmt::format("the run '{}' has no complete checkpoint", where),
                "give a run's folder or a checkpoint file");
  return complete.front();
}

}  // namespace

void LoadedModel::require_same_tokenizer(const TokenStore& store) const {
  if (store.tokenizer_fingerprint() != info.tokenizer_fingerprint)
    throw Error(fmt::format("'{}' has another tokenizer ({}) than the checkpoint ({})", store.path(),
                            store.tokenizer_fingerprint(), info.tokenizer_fingerprint),
                "build the store with the checkpoint's tokenizer: heddle data build --data.tokenizer_from STORE");
}

LoadedModel open_model(Job& job, const std::string& where, int expert_parallel, const Kernels& kernels) {
  LoadedModel loaded;
  loaded.path = checkpoint_of(where);
  loaded.info = read_checkpoint_info(loaded.path);
  Config keys;
  loaded.config.declare(keys);
  keys.parse_text(loaded.info.config, loaded.path);
  loaded.config.validate();
  loaded.config.model.vocabulary_size =
      static_cast<int64_t>(h5::File(loaded.path, h5::File::Mode::kRead).extent("/model/embed_tokens.weight").at(0));
  check_layout(job.world().size(), expert_parallel, loaded.config.layout_experts());
  loaded.groups = std::make_unique<ProcessGroups>(job.world(), expert_parallel);
  loaded.model = std::make_unique<LoopedModel>(loaded.config.model, *loaded.groups, kernels);
  load_model(loaded.path, *loaded.model);
  loaded.model->set_active_loops(loaded.config.loops_of_steps().active(loaded.info.step));
  return loaded;
}

}  // namespace heddle
