#include "train/evaluation.h"

#include <algorithm>

#include "train/batches.h"
#include "train/progress.h"

namespace heddle {

std::vector<double> token_bytes(const TokenStore& store) {
  const std::unique_ptr<Tokenizer> tokenizer = store.tokenizer();
  std::vector<double> bytes;
  for (int64_t id = 0; id < tokenizer->vocabulary_size(); ++id)
    bytes.push_back(static_cast<double>(tokenizer->piece_bytes(static_cast<uint32_t>(id)).size()));
  return bytes;
}

void add_losses(LoopedModel& model, const TokenBatch& batch, const std::vector<int64_t>& loops, int64_t constants_loops,
                bool use_capacity, std::span<double> sums) {
  Tape tape = model.tape(Tape::Mode::kForwardOnly);
  LoopedModel::Options options;
  options.constants_loops = constants_loops;
  options.use_capacity = use_capacity;
  const Variable embedding = model.embed(tape, batch, options);
  LoopState state = model.start(batch, embedding);
  int64_t done = 0;
  for (size_t i = 0; i < loops.size(); ++i) {
    model.run_loops(tape, batch, embedding, done, loops[i], options, state);
    done = loops[i];
    sums[i] += model.loss(tape, model.read_out(tape, batch, embedding, state, options), batch, 0).cross_entropy;
  }
}

std::vector<EvaluationResult> evaluate(LoopedModel& model, const TokenStore& store, Part part,
                                       const EvaluationOptions& options) {
  Communicator& world = model.groups().world();
  std::vector<int64_t> loops = options.loops;
  std::sort(loops.begin(), loops.end());
  loops.erase(std::unique(loops.begin(), loops.end()), loops.end());
  if (loops.empty()) loops = {model.active_loops()};
  const Loader loader(store, {options.sequence, 1, 0, options.document_mask});
  const int64_t all = loader.eval_samples(part);
  const int64_t count = options.samples > 0 ? std::min(options.samples, all) : all;
  const std::vector<double> bytes_of = token_bytes(store);

  std::vector<double> sums(loops.size(), 0);
  double bytes = 0;
  int64_t targets = 0;
  for (const RowRange range : micro_batch_rows(count, options.micro_batch, world.rank(), world.size())) {
    if (options.interrupted && options.interrupted()) return {};
    TokenBatch batch = token_batch(loader.fetch_eval(part, range.first, range.count), {0, range.count});
    add_noise(batch, model.config(), options.seed, NoiseUse::kEvaluation, range.first);
    for (const int32_t target : batch.targets.get<int32_t>()) {
      if (target == kIgnoredTarget) continue;
      ++targets;
      bytes += bytes_of[static_cast<size_t>(target)];
    }
    if (options.rule == DepthRule::kTrained) {
      add_losses(model, batch, loops, 0, false, sums);
      continue;
    }
    // Every count has constants of its own, so no pass serves two of them.
    for (size_t i = 0; i < loops.size(); ++i)
      add_losses(model, batch, {loops[i]}, loops[i], false, std::span(sums).subspan(i, 1));
  }
  world.all_reduce_sum(std::span<double>(sums));
  world.all_reduce_sum(std::span<double>(&bytes, 1));
  world.all_reduce_sum(std::span<int64_t>(&targets, 1));
  if (targets == 0)
    throw Error(
        fmt::format("nothing to measure: no target of the {} part of '{}' counts", part_name(part), store.path()),
        "use more text; with data.document_mask a document of one token has no target");
  std::vector<EvaluationResult> results;
  for (size_t i = 0; i < loops.size(); ++i)
    results.push_back({loops[i], targets, sums[i] / static_cast<double>(targets), bits_per_byte(sums[i], bytes)});
  return results;
}

}  // namespace heddle
