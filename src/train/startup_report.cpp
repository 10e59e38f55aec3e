#include "train/startup_report.h"

#include <sched.h>

#include <map>

#include "model/counting.h"
#include "support/log.h"
#include "support/narrow.h"
#include "support/numbers.h"
#include "support/parallel.h"

namespace heddle {

namespace {

int cores_allowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

std::string rank_lines(Job& job) {
  Communicator& world = job.world();
  const int cores = cores_allowed(), threads = parallel_workers();
  if (cores > 0 && threads > cores)
    log_rank_warning(
        fmt::format("{} threads may use {} core(s) only; start with launch/heddle-mpirun or mpirun --bind-to none",
                    threads, cores));
  std::string text;
  for (const std::string& line : all_gather_text(
           world, fmt::format("  rank {:<4} host {}, local rank {} of {}, {} thread(s), {} core(s) allowed",
                              world.rank(), job.host(), job.local_rank(), job.local_size(), threads, cores)))
    text += line + "\n";
  return text;
}

std::string share(int64_t part, int64_t total) {
  return fmt::format("{:>14}  {:5.1f}%", part, 100.0 * static_cast<double>(part) / static_cast<double>(total));
}

std::string parameter_table(const ModelConfig& model, int expert_parallel) {
  const ParameterCount count = count_parameters(model);
  const int64_t total = count.total();
  std::string text =
      fmt::format("parameters: {} in total, {} used by a token in one visit of every layer\n", total, count.active);
  const auto row = [&](const char* name, int64_t part) {
    text += fmt::format("  {:<34} {}\n", name, share(part, total));
  };
  const auto layers = [&](const char* part, const LayerCount& of) {
    const auto layer_row = [&](const std::string& name, int64_t number) {
      if (number > 0) row(fmt::format("{}{}", part, name).c_str(), number);
    };
    layer_row("attention", of.attention);
    layer_row("dense feed-forward", of.dense);
    layer_row(fmt::format("routers ({} loops)", model.loops), of.routers);
    layer_row(fmt::format("routed experts ({}, {} per rank)", model.moe.experts, model.moe.experts / expert_parallel),
              of.routed_experts);
    layer_row(fmt::format("shared experts ({})", model.moe.shared_experts), of.shared_experts);
    layer_row("norms", of.norms);
  };
  row("embedding", count.embedding);
  layers("prelude: ", count.prelude);
  layers("", count.core);
  if (count.boundary > 0) row("between loops", count.boundary);
  layers("coda: ", count.coda);
  if (count.norms > 0) row("norms outside of layers", count.norms);
  row(model.embedding_tied ? "head (the embedding)" : "head", count.head);
  return text;
}

std::string schedule_text(const TrainConfig& config) {
  const BackPropagation& b = config.step.back_propagation;
  const size_t pieces = pieces_of(b, config.model.loops).size();
  switch (b.mode) {
    case BackPropagationMode::kSegmented:
      return fmt::format("{} segment(s) with {}", pieces, b.step_per_segment ? "an update each" : "one update");
    case BackPropagationMode::kTruncated:
      return fmt::format("gradient through the last {} loop(s)", b.loops);
    case BackPropagationMode::kCheckpointed:
      return fmt::format("{} loop(s) recomputed at a time", b.loops);
    case BackPropagationMode::kFull:
      break;
  }
  return "gradient through all loops";
}

std::string data_table(const TokenStore& store, const TrainConfig& config) {
  std::string text = fmt::format("data: {} (vocabulary {}, {} tokenizer)\n", store.path(), store.vocabulary_size(),
                                 store.tokenizer_kind());
  for (const Part part : kAllParts) {
    if (!store.has(part)) continue;
    const double tokens = static_cast<double>(store.tokens(part));
    text +=
        fmt::format("  {:<12} {:>10} tokens  {:>6} documents  {:>10}  {:.2f} bytes per token\n", part_name(part),
                    store.tokens(part), store.documents(part), human_bytes(static_cast<double>(store.text_bytes(part))),
                    static_cast<double>(store.text_bytes(part)) / tokens);
  }
  const double wanted = static_cast<double>(config.steps) * static_cast<double>(config.global_batch) *
                        static_cast<double>(config.sequence);
  // The loader takes whole windows of the unique tokens.
  const auto unique = static_cast<double>(
      config.unique_tokens > 0 ? config.unique_tokens / config.sequence * config.sequence : store.tokens(Part::kTrain));
  text += fmt::format(
      "  training reads {} tokens: {:.2f} epochs{}\n", human_count(wanted), wanted / unique,
      config.unique_tokens > 0 ? fmt::format(" of {} tokens (data.unique_tokens)", human_count(unique)) : "");
  return text;
}

}  // namespace

std::string memory_report(Communicator& world, const MemoryUse& plan, const Device& device) {
  const MemoryUse use = Allocator::current().use();
  std::vector<int64_t> numbers(use.current.begin(), use.current.end());
  numbers.insert(numbers.end(), use.peak.begin(), use.peak.end());
  numbers.insert(numbers.end(), plan.peak.begin(), plan.peak.end());
  numbers.insert(numbers.end(), {use.total, use.total_peak, plan.total_peak, use.reserved});
  world.all_reduce_max(std::span<int64_t>(numbers));
  const auto bytes = [&](size_t i) { return human_bytes(static_cast<double>(numbers[i])); };
  constexpr const char* kRow = "  {:<24} {:>12} {:>12} {:>12}";
  std::string text = "memory of tensors, largest rank; planned: a step with equal shares for all experts\n";
  text += fmt::format(kRow, "", "now", "peak", "planned") + "\n";
  constexpr auto kCount = static_cast<size_t>(kPurposes);
  for (size_t p = 0; p < kCount; ++p)
    text +=
        fmt::format(kRow, purpose_name(static_cast<Purpose>(p)), bytes(p), bytes(kCount + p), bytes(2 * kCount + p)) +
        "\n";
  text += fmt::format(kRow, "all", bytes(3 * kCount), bytes(3 * kCount + 1), bytes(3 * kCount + 2)) +
          fmt::format("   (held from the system: {})\n", bytes(3 * kCount + 3));
  if (device.memory_in_use) {
    auto [used, all] = device.memory_in_use();
    world.all_reduce_max(std::span<int64_t>(&used, 1));
    text += fmt::format("  of the GPU {} of {} are in use, workspaces, libraries and other programs included\n",
                        human_bytes(static_cast<double>(used)), human_bytes(static_cast<double>(all)));
  }
  return text;
}

std::string startup_report(Job& job, const TrainConfig& config, const TokenStore& store, LoopedModel& model,
                           const Device& device, double peak_flops, const MemoryUse& plan) {
  const int ranks = job.world().size();
  std::string text = fmt::format("ranks: {}\n{}", ranks, rank_lines(job));
  text += fmt::format("device: {}, {:.0f} GFLOP/s of matrix products measured over all ranks\n", device.description,
                      peak_flops * 1e-9);
  const int64_t per_step = div_up(config.global_batch, config.micro_batch * ranks);
  text += fmt::format(
      "layout: {} data ranks, expert parallel {}; {} sequences of {} tokens per step in {} micro-steps of up to {} per "
      "rank\n",
      ranks, config.expert_parallel, config.global_batch, config.sequence, per_step, config.micro_batch);
  const ModelConfig& m = model.config();
  const std::string outer =
      m.prelude_layers + m.coda_layers > 0 ? fmt::format(" + {} + {} outside", m.prelude_layers, m.coda_layers) : "";
  const std::map<int64_t, double> counts = config.loops_of_steps().shares(config.steps);
  text += fmt::format("model: {} layers x {} loops{}, width {}; {}; {} FLOPs per training token{}\n", m.layers, m.loops,
                      outer, m.hidden_size, schedule_text(config), human_count(config.mean_training_flops(m).total()),
                      counts.size() > 1 ? fmt::format(" (steps of {})", loop_counts_text(counts)) : "");
  text += parameter_table(model.config(), static_cast<int>(config.expert_parallel));
  text += data_table(store, config);
  text += memory_report(job.world(), plan, device);
  return text;
}

}  // namespace heddle
