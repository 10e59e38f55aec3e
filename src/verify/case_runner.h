// What the parts of a verification share: the case, its file, this rank's rows, and the comparison.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "model/looped_model.h"
#include "optim/optimizer.h"
#include "support/hdf5.h"
#include "verify/case_config.h"
#include "verify/comparison.h"

namespace heddle {

/// This rank's rows of the batch in one micro-step, by number. The micro-steps are those of the processes that the case
/// was made for, whose rows need not be neighbours; each is split over the ranks that are here.
using CaseRows = std::vector<int64_t>;

struct CaseRunner {
  const CaseConfig config;
  const h5::File file;
  Communicator& world;
  const Kernels& kernels;
  int expert_parallel;
  ProcessGroups groups;
  Comparison comparison;
  std::vector<CaseRows> micro_batches;  ///< this rank's rows of every micro-step

  CaseRunner(CaseConfig c, const std::string& path, Communicator& w, int width, const Kernels& k);

  bool has(const std::string& name) const { return file.exists(name); }
  h5::Extent extent(std::initializer_list<int64_t> sizes) const { return {sizes.begin(), sizes.end()}; }
  /// The whole dataset, whose shape must be `extent` (a scalar may be stored as [1]).
  template <typename T>
  std::vector<T> read(const std::string& name, const h5::Extent& extent) const {
    check_extent(name, extent);
    return file.read<T>(name);
  }
  void check_extent(const std::string& name, const h5::Extent& extent) const;
  /// Refuses datasets that nothing has read: they may be misspelt, or mean something that this build does not compute.
  void refuse_unread() const;
  /// Refuses counts below `least` or above kMostLoops.
  void check_loops(const std::string& name, const std::vector<int32_t>& counts, int32_t least) const;

  int64_t initial_loops() const {
    return config.loops.growth_initial_loops > 0 ? config.loops.growth_initial_loops : config.model.loops;
  }
  bool speaks() const { return world.rank() == 0; }
  /// A number that all ranks know: rank 0 adds it, the others name it.
  void add_number(const std::string& quantity, const std::string& tensor, double found, double expected);
  /// This rank's share of a tensor in a comparison over ranks: replicated ones by rank 0, experts by one replica.
  bool contributes(const Parameter& p) const {
    return p.sharing == Sharing::kReplicated ? speaks() : world.rank() < expert_parallel;
  }

  /// A model with the case's start values and gradient memory; capacity_factor 0: dropless.
  std::unique_ptr<LoopedModel> make_model(double capacity_factor);
  std::vector<TokenBatch> read_batches(int64_t step) const;

 private:
  mutable std::set<std::string> read_;  ///< datasets whose shape was checked, as all are that are read
};

/// Inside of a forward pass, losses and gradients (docs/model_family.md section 7). `gradients` may be empty.
void check_forward(CaseRunner& run, LoopedModel& model, const std::string& group, const std::string& gradients);
/// Gradients of one piece: /grads of version 1, /grads_segment0.
void check_gradients(CaseRunner& run, LoopedModel& model, const std::string& group, const Piece& piece);
/// Losses at other loop counts than trained.
void check_evaluation(CaseRunner& run, LoopedModel& model);
void check_training(CaseRunner& run, LoopedModel& model);
/// Start values that the program draws itself.
void check_initial(CaseRunner& run);

}  // namespace heddle
