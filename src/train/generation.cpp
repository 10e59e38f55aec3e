#include "train/generation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/random.h"
#include "train/batches.h"

namespace heddle {

int64_t draw_token(const float* logits, int64_t vocabulary, double temperature, int64_t top_k, double uniform) {
  std::vector<int64_t> order(static_cast<size_t>(vocabulary));
  std::iota(order.begin(), order.end(), int64_t{0});
  const size_t kept = temperature == 0 ? 1 : static_cast<size_t>(top_k > 0 ? std::min(top_k, vocabulary) : vocabulary);
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                    [&](int64_t a, int64_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  if (kept == 1) return order[0];
  std::vector<double> weights(kept);
  for (size_t i = 0; i < kept; ++i)
    weights[i] = std::exp(static_cast<double>(logits[order[i]] - logits[order[0]]) / temperature);
  double left = uniform * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i < kept; ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order[kept - 1];
}

namespace {

/// Logits of the last position; rank 0 holds the row, the others take part with none.
std::vector<float> last_logits(LoopedModel& model, const std::vector<int64_t>& tokens, int64_t loops, uint64_t seed) {
  const auto length = static_cast<int64_t>(tokens.size());
  const bool holds = model.groups().world().rank() == 0;
  TokenBatch batch{holds ? 1 : 0, length, {}, {}, {}, {}, {}};
  const int64_t n = batch.rows * length;
  for (Tensor* t : {&batch.tokens, &batch.targets, &batch.position})
    *t = Tensor::zeros({n}, Purpose::kActivations, DType::kInt32);
  std::vector<int32_t> positions(static_cast<size_t>(n));
  std::iota(positions.begin(), positions.end(), 0);
  batch.tokens.set<int32_t>(std::vector<int32_t>(tokens.begin(), tokens.begin() + n));
  batch.position.set<int32_t>(positions);
  Tape tape = model.tape(Tape::Mode::kForwardOnly);
  LoopedModel::Options options;
  options.use_capacity = false;
  add_noise(batch, model.config(), seed, NoiseUse::kGeneration, 0);
  const Variable embedding = model.embed(tape, batch, options);
  LoopState state = model.start(batch, embedding);
  model.run_loops(tape, batch, embedding, 0, loops, options, state);
  const Variable y = model.read_out(tape, batch, embedding, state, options);
  if (!holds) return {};
  return model.logits(y.value.rows(n - 1, 1)).get<float>();
}

}  // namespace

std::vector<int64_t> generate(LoopedModel& model, std::vector<int64_t> text, const GenerationOptions& options) {
  Communicator& world = model.groups().world();
  const int64_t loops = options.loops > 0 ? options.loops : model.active_loops();
  const size_t prompt = text.size();
  require(prompt > 0, "generation from an empty prompt");
  for (int64_t i = 0; i < options.tokens; ++i) {
    const size_t first = text.size() - std::min(text.size(), static_cast<size_t>(options.context));
    const std::vector<int64_t> window(text.begin() + static_cast<std::ptrdiff_t>(first), text.end());
    const std::vector<float> logits = last_logits(model, window, loops, options.seed);
    int64_t next = 0;
    if (!logits.empty())
      next = draw_token(logits.data(), static_cast<int64_t>(logits.size()), options.temperature, options.top_k,
                        random_uniform(options.seed, Draw::kSampling, 0, text.size()));
    world.broadcast(&next, sizeof next, 0);
    if (next == options.stop_token) break;
    text.push_back(next);
  }
  return {text.begin() + static_cast<std::ptrdiff_t>(prompt), text.end()};
}

}  // namespace heddle
