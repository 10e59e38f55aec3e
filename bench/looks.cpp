// What does a look at the loops cost (train/loop_statistics.h)? Training steps with and without one, in turn within one
// run, on a small model with 3 loops and a narrow one with 9; medians, and the share of the time at
// statistics.interval 10.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "train/step.h"

namespace heddle {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(const char* name, const ModelConfig& config, int64_t rows, int64_t sequence, int repeats) {
  const auto world = make_single_communicator();
  ProcessGroups groups(*world, 1);
  LoopedModel model(config, groups, cpu::kernels());
  model.initialise(1);
  model.parameters().allocate_gradients();
  Optimizer optimizer({}, model.parameters(), groups, cpu::kernels());
  StepConfig settings;
  settings.back_propagation = {BackPropagationMode::kSegmented, 3, true};
  TrainStep step(model, optimizer, settings);
  TokenBatch batch{rows, sequence, {}, {}, {}, {}, {}};
  for (Tensor* t : {&batch.tokens, &batch.targets, &batch.position})
    *t = Tensor::zeros({rows * sequence}, Purpose::kActivations, DType::kInt32);
  for (int64_t i = 0; i < rows * sequence; ++i) {
    batch.tokens.i32()[i] = static_cast<int32_t>((i * 7919 + 13) % config.vocabulary_size);
    batch.targets.i32()[i] = static_cast<int32_t>((i * 104729 + 7) % config.vocabulary_size);
    batch.position.i32()[i] = static_cast<int32_t>(i % sequence);
  }
  std::vector<double> plain, looked, ratios;
  const auto seconds = [&](bool look) {
    const auto start = std::chrono::steady_clock::now();
    step.run({batch}, {1, 0.01, 0, look});
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  seconds(true);
  for (int i = 0; i < repeats; ++i) {
    // In either order, so that neither profits from what the other left in caches.
    const bool first = i % 2 == 0;
    const double a = seconds(first), b = seconds(!first);
    looked.push_back(first ? a : b);
    plain.push_back(first ? b : a);
    ratios.push_back(looked.back() / plain.back());
  }
  const double extra = median(ratios) - 1;
  fmt::print("{}: step {:.1f} ms, with a look {:.1f} ms; a look costs {:.1f} % of a step, {:.2f} % at interval 10\n",
             name, 1e3 * median(plain), 1e3 * median(looked), 100 * extra, 10 * extra);
}

void run() {
  ModelConfig small;
  small.vocabulary_size = 8192;
  small.hidden_size = 512;
  small.layers = 4;
  small.loops = 3;
  small.query_heads = 8;
  small.kv_heads = 4;
  small.head_dim = 64;
  small.moe = {.experts = 30, .top_k = 6, .shared_experts = 2, .intermediate = 512};
  measure("width 512, 4 layers x 3 loops, 30 experts, 6 a token", small, 2, 256, 8);
  ModelConfig narrow = small;
  narrow.vocabulary_size = 4096;
  narrow.hidden_size = 128;
  narrow.layers = 2;
  narrow.loops = 9;
  narrow.query_heads = 4;
  narrow.kv_heads = 2;
  narrow.head_dim = 32;
  narrow.moe = {.experts = 8, .top_k = 2, .shared_experts = 1, .intermediate = 128};
  measure("width 128, 2 layers x 9 loops, 8 experts, 2 a token", narrow, 8, 128, 16);
}

}  // namespace
}  // namespace heddle

int main() {
  heddle::run();
  return 0;
}
