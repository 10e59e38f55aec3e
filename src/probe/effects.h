// What the loss loses or gains when a part of the model is left out or exchanged: the same documents with and without
// an intervention, paired.
#pragma once

#include "probe/documents.h"
#include "probe/information.h"

namespace heddle {

/// Loss sums of every document after each of `loops` (rising counts): [counts][documents], over all ranks. Capacity is
/// off. Collective.
std::vector<std::vector<double>> document_losses(LoopedModel& model, const ProbeDocuments& documents,
                                                 const std::vector<int64_t>& loops,
                                                 const Interventions* interventions = nullptr,
                                                 DocumentObserver* observer = nullptr);

/// Whether loops differ in what a router swap exchanges: router, router bias or row of balance biases.
bool has_routers_by_loop(const ModelConfig& config);

struct EffectOptions {
  int64_t experts = 0;         ///< so many of the most loaded experts of each core layer are skipped, each alone
  std::vector<int64_t> loops;  ///< other loop counts, rising; empty: 1 .. R + 2
};

/// Fills loss, loss_by_loop and all effects of `result`. There are no swaps where no router belongs to a loop.
/// `choices` receives those of the intact model. Throws UsageError for experts asked of a core without. Collective.
void probe_effects(LoopedModel& model, const ProbeDocuments& documents, const EffectOptions& options,
                   ChoiceRecord& choices, ProbeResult& result);

}  // namespace heddle
