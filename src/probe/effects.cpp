#include "probe/effects.h"

#include <algorithm>
#include <numeric>

namespace heddle {

namespace {

/// Slots at counted positions that contributed nothing.
class DroppedSlots final : public DocumentObserver {
 public:
  void on_block(const BlockView& view) override {
    if (!view.routing.keep.defined()) return;
    const std::vector<uint8_t> keep = view.routing.keep.get<uint8_t>();
    const int64_t k = view.routing.index.dim(1), sequence = batch().tokens.sequence;
    for (int64_t r = 0; r < batch().tokens.rows; ++r) {
      const auto first = keep.begin() + r * sequence * k;
      count_ += std::count(first, first + batch().targets[static_cast<size_t>(r)] * k, uint8_t{0});
    }
  }
  /// Collective.
  int64_t over_ranks(Communicator& world) const {
    int64_t sum = count_;
    world.host().all_reduce_sum(std::span<int64_t>(&sum, 1));
    return sum;
  }

 private:
  int64_t count_ = 0;
};

class EffectRun {
 public:
  EffectRun(LoopedModel& model, const ProbeDocuments& documents, std::vector<double> intact)
      : model_(model), documents_(documents), intact_(std::move(intact)) {}

  Effect measure(Effect effect, const Interventions& changes) {
    DroppedSlots dropped;
    const bool experts = !changes.skipped_experts.empty();
    const std::vector<double> changed =
        document_losses(model_, documents_, {model_.active_loops()}, &changes, experts ? &dropped : nullptr)[0];
    if (experts) effect.slots = dropped.over_ranks(model_.groups().world());
    return completed(effect, changed);
  }
  Effect completed(Effect effect, const std::vector<double>& changed) const {
    std::vector<double> change(intact_.size());
    for (size_t d = 0; d < change.size(); ++d) change[d] = changed[d] - intact_[d];
    effect.change = estimate(change, documents_.tokens());
    effect.documents = documents_.count();
    return effect;
  }

 private:
  LoopedModel& model_;
  const ProbeDocuments& documents_;
  std::vector<double> intact_;
};

Effect of_loop(int64_t loop) {
  Effect effect;
  effect.loop = loop;
  return effect;
}

void skip_parts(EffectRun& run, ProbeResult& result) {
  for (int64_t loop = 0; loop < result.loops; ++loop) {
    Interventions changes;
    changes.skipped_loops = {loop};
    result.skipped_loops.push_back(run.measure(of_loop(loop), changes));
  }
  for (int64_t loop = 0; loop < result.loops; ++loop)
    for (int64_t layer = 0; layer < result.layers; ++layer) {
      Interventions changes;
      changes.skipped_blocks = {{loop, layer}};
      Effect effect = of_loop(loop);
      effect.layer = layer;
      result.skipped_blocks.push_back(run.measure(effect, changes));
    }
  for (int64_t layer = 0; layer < result.layers; ++layer) {
    Interventions changes;
    for (int64_t loop = 0; loop < result.loops; ++loop) changes.skipped_blocks.insert({loop, layer});
    Effect effect;
    effect.layer = layer;
    result.skipped_layers.push_back(run.measure(effect, changes));
  }
}

void exchange_routers(EffectRun& run, ProbeResult& result) {
  const auto serve = [&](Interventions& changes, int64_t loop, int64_t router) {
    for (int64_t layer = 0; layer < result.layers; ++layer) changes.routers[{loop, layer}] = router;
  };
  if (result.loops < 2) return;
  for (int64_t a = 0; a < result.loops; ++a)
    for (int64_t b = a + 1; b < result.loops; ++b) {
      Interventions changes;
      serve(changes, a, b);
      serve(changes, b, a);
      Effect effect = of_loop(a);
      effect.other_loop = b;
      result.router_swaps.push_back(run.measure(effect, changes));
    }
  for (int64_t router = 0; router < result.loops; ++router) {
    Interventions changes;
    for (int64_t loop = 0; loop < result.loops; ++loop) serve(changes, loop, router);
    result.one_router.push_back(run.measure(of_loop(router), changes));
  }
}

/// Each of the most loaded experts of every core layer, in all its visits. The lower expert comes first among equals.
void skip_experts(const LoopedModel& model, EffectRun& run, const ChoiceRecord& choices, int64_t most,
                  ProbeResult& result) {
  for (const ChoiceRecord::StoredLayer& stored : choices.layers()) {
    if (stored.part != StackPart::kCore) continue;
    const std::vector<int64_t> load = choices.load(stored);
    std::vector<int64_t> order(load.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return load[static_cast<size_t>(a)] > load[static_cast<size_t>(b)]; });
    for (int64_t i = 0; i < std::min(most, static_cast<int64_t>(order.size())); ++i) {
      Interventions changes;
      const int64_t expert = order[static_cast<size_t>(i)];
      changes.skipped_experts = {{stored.number, expert}};
      Effect effect;
      if (!model.config().tied) effect.loop = stored.loops.front();
      effect.layer = stored.layer;
      effect.expert = expert;
      result.skipped_experts.push_back(run.measure(effect, changes));
    }
  }
}

}  // namespace

std::vector<std::vector<double>> document_losses(LoopedModel& model, const ProbeDocuments& documents,
                                                 const std::vector<int64_t>& loops, const Interventions* interventions,
                                                 DocumentObserver* observer) {
  const auto n = static_cast<size_t>(documents.count());
  std::vector<double> sums(loops.size() * n, 0);
  for (const DocumentBatch& documents_here : documents.batches()) {
    if (observer != nullptr) observer->begin(documents_here);
    Tape tape = model.tape(Tape::Mode::kForwardOnly);
    LoopedModel::Options options;
    options.use_capacity = false;
    options.observer = observer;
    options.interventions = interventions;
    const TokenBatch& batch = documents_here.tokens;
    const Variable embedding = model.embed(tape, batch, options);
    LoopState state = model.start(batch, embedding);
    int64_t done = 0;
    for (size_t i = 0; i < loops.size(); ++i) {
      model.run_loops(tape, batch, embedding, done, loops[i], options, state);
      done = loops[i];
      const Variable y = model.read_out(tape, batch, embedding, state, options);
      for (int64_t r = 0; r < batch.rows; ++r) {
        TokenBatch row{1, batch.sequence, {}, {}, {}, {}, {}};
        row.targets = batch.targets.rows(r * batch.sequence, batch.sequence);
        const Variable mine = Tape::constant(y.value.rows(r * batch.sequence, batch.sequence));
        sums[i * n + static_cast<size_t>(documents_here.first + r)] = model.loss(tape, mine, row, 0).cross_entropy;
      }
    }
  }
  sum_over_ranks(model.groups().world(), sums);
  std::vector<std::vector<double>> by_count;
  for (size_t i = 0; i < loops.size(); ++i)
    by_count.emplace_back(sums.begin() + static_cast<int64_t>(i * n), sums.begin() + static_cast<int64_t>((i + 1) * n));
  return by_count;
}

bool has_routers_by_loop(const ModelConfig& config) {
  return config.core_moe() && config.tied &&
         (config.moe.router != RouterSharing::kShared || config.moe.balance_scope == BalanceScope::kLayerLoop);
}

void probe_effects(LoopedModel& model, const ProbeDocuments& documents, const EffectOptions& options,
                   ChoiceRecord& choices, ProbeResult& result) {
  if (options.experts > 0 && !model.config().core_moe())
    throw UsageError("probe.experts asks for experts, and the core of this model has none",
                     "leave it out: it is 0 for a dense core");
  const int64_t intact_loops = model.active_loops();
  std::vector<int64_t> others = options.loops;
  if (others.empty()) {
    others.resize(static_cast<size_t>(intact_loops + 2));
    std::iota(others.begin(), others.end(), 1);
  }
  std::vector<int64_t> counts = others;
  for (int64_t t = 1; t <= intact_loops; ++t) counts.push_back(t);
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());

  const std::vector<double> intact = document_losses(model, documents, {intact_loops}, nullptr, &choices)[0];
  choices.finish(model.groups().world());
  const std::vector<std::vector<double>> by_count = document_losses(model, documents, counts);
  EffectRun run(model, documents, intact);
  result.loss = estimate(intact, documents.tokens());
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] <= intact_loops)
      result.loss_by_loop.push_back({counts[i], estimate(by_count[i], documents.tokens())});
    if (counts[i] == intact_loops || std::find(others.begin(), others.end(), counts[i]) == others.end()) continue;
    Effect effect;
    effect.loops = counts[i];
    result.loop_counts.push_back(run.completed(effect, by_count[i]));
  }
  skip_parts(run, result);
  if (has_routers_by_loop(model.config())) exchange_routers(run, result);
  skip_experts(model, run, choices, options.experts, result);
}

}  // namespace heddle
