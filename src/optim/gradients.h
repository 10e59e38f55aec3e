// Gradients over ranks: sums over the ranks that hold the same elements, the norm that counts each element once, and
// the way of updated weights from the rank that owns them to the others.
#pragma once

#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "autograd/tape.h"
#include "kernels/kernels.h"
#include "optim/shards.h"

namespace heddle {

/// Sums, in rank order, replicated gradients over all ranks and expert gradients over the expert's replicas. (An
/// expert's gradient already holds the tokens of its whole expert-parallel group.) With shards, only the owner of an
/// element has its sum afterwards. The bits do not depend on when and with what neighbours a gradient is summed.
///
/// As the listener of the tapes of an update's last backward pass it begins with a gradient when its last use is
/// unwound: where sums go beside computing (GPUs), they are under way while the rest of the backward pass runs.
class GradientReduction final : public GradientListener {
 public:
  /// Begins whenever so many bytes are ready; 0: with the first.
  GradientReduction(ParameterSet& parameters, const Shards& shards, int64_t bucket_bytes)
      : parameters_(parameters), shards_(shards), bucket_bytes_(bucket_bytes) {}

  void used(Parameter& p) override;
  void unwound(Parameter& p) override;
  /// Begins with all gradients that are left and waits for all. Collective.
  void finish();

 private:
  void begin();

  ParameterSet& parameters_;
  const Shards& shards_;
  int64_t bucket_bytes_;
  std::unordered_map<const Parameter*, int> uses_;  ///< on tapes that have not been unwound
  std::unordered_set<const Parameter*> ready_;
  int64_t ready_bytes_ = 0;
  std::vector<std::unique_ptr<Communicator::Exchange>> under_way_;
};

/// The same for gradients that are all there. Collective.
void reduce_gradients(ParameterSet& parameters, const Shards& shards);

/// Euclidean norm over all parameters that have a gradient, every expert once, the same number on every rank and the
/// same bits with and without shards. Not finite if any gradient is not. Collective.
double gradient_norm(ParameterSet& parameters, ProcessGroups& groups, const Shards& shards, const Kernels& kernels);

/// Brings the weights that each rank has updated to all ranks that hold them; nothing to do without shards. Collective.
void gather_weights(ParameterSet& parameters, const Shards& shards);

}  // namespace heddle
