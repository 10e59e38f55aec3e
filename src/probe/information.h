// Specialisation of experts: how much the choice of an expert tells about the token, the loop, and the loop where the
// token is known.
#pragma once

#include <map>

#include "probe/documents.h"

namespace heddle {

/// The experts that every counted position chose in every visit of the intact model.
class ChoiceRecord final : public DocumentObserver {
 public:
  struct StoredLayer {
    StackPart part = StackPart::kCore;
    int64_t number = 0;          ///< among the stored layers with experts
    int64_t layer = 0;           ///< within its part
    std::vector<int64_t> loops;  ///< that visit it
  };

  ChoiceRecord(const ModelConfig& config, const ProbeDocuments& documents) : config_(config), documents_(documents) {}
  void on_block(const BlockView& view) override;
  /// Makes the record that of all ranks; 4 bytes for every slot of every visit. Collective.
  void finish(Communicator& world);

  std::vector<StoredLayer> layers() const;
  /// Experts [documents' tokens * k], in order of documents and positions.
  const std::vector<int32_t>& choices(int64_t stored, int64_t loop) const { return choices_.at({stored, loop}); }
  std::vector<int64_t> load(const StoredLayer& layer) const;  ///< [E] slots, all loops

 private:
  const ModelConfig& config_;
  const ProbeDocuments& documents_;
  std::map<std::pair<int64_t, int64_t>, std::vector<int32_t>> choices_;
  std::map<int64_t, StoredLayer> layers_;
};

/// I(expert; token), I(expert; loop) and I(expert; loop | token) of `choices` [loops][tokens * k] where position p
/// holds token ids[p], with every slot as one draw, by the plug-in estimate; nats. Chance: the same with ids permuted
/// over positions (token), or the loops of each position permuted (loop), one permutation that is the same in every
/// run. Does not fill `layer`.
MutualInformation mutual_information(const std::vector<int32_t>& ids,
                                     const std::vector<const std::vector<int32_t>*>& choices);

/// One entry per stored layer with experts. Collective.
void probe_information(LoopedModel& model, const ProbeDocuments& documents, const ChoiceRecord& choices,
                       ProbeResult& result);

}  // namespace heddle
