#include "train/memory_plan.h"

#include <sys/sysinfo.h>

#include "comm/dry_communicator.h"
#include "support/numbers.h"
#include "train/batches.h"

namespace heddle {

namespace {

/// A dry step with the given micro-batches.
MemoryUse dry_step(const TrainConfig& config, const ModelConfig& shape, ProcessGroups& groups,
                   const std::vector<RowRange>& rows_of, const Kernels& of_device) {
  Allocator pages(untouched_memory());
  const ScopedAllocator scope(pages);
  const Kernels kernels = dry::kernels(of_device);
  LoopedModel model(shape, groups, kernels, config.precision == "bfloat16" ? DType::kBfloat16 : DType::kFloat32);
  Optimizer optimizer(config.optimizer, model.parameters(), groups, kernels);
  model.parameters().allocate_gradients();
  TrainStep step(model, optimizer, config.step);
  std::vector<TokenBatch> micro_batches;
  for (const RowRange range : rows_of) {
    Batch rows;
    rows.rows = range.count;
    rows.sequence_length = config.sequence;
    const auto tokens = static_cast<size_t>(range.count * config.sequence);
    rows.inputs.resize(tokens);
    rows.targets.resize(tokens);
    rows.positions.resize(tokens);
    rows.document_start.resize(tokens);
    micro_batches.push_back(token_batch(rows, {0, range.count}));
    if (shape.initial_state == InitialState::kNoise)
      micro_batches.back().noise =
          Tensor::empty({range.count * config.sequence, shape.hidden_size}, Purpose::kActivations);
  }
  step.run(micro_batches, {1, 0, step.largest_loops()});
  return pages.use();
}

}  // namespace

MemoryUse plan_memory(const TrainConfig& config, const ModelConfig& model_config, int rank, int ranks,
                      const Kernels& kernels) {
  const auto width = static_cast<int>(config.expert_parallel);
  const auto world = make_dry_communicator(rank, ranks);
  ProcessGroups groups(*world, make_dry_communicator(rank % width, width),
                       make_dry_communicator(rank / width, ranks / width));
  groups.set_exchange_chunks(config.exchange_chunks);
  ModelConfig shape = model_config;
  if (shape.moe.gate == Gate::kLearned) shape.moe.gate = Gate::kUniform;
  shape.moe.capacity_factor = 0;  // it would only drop slots

  // Rank 0 never has fewer rows than another. From the third micro-batch on, each adds what it carries between
  // segments.
  constexpr int64_t kExact = 3;
  std::vector<RowRange> rows = micro_batch_rows(config.global_batch, config.micro_batch, 0, ranks);
  const auto count = static_cast<int64_t>(rows.size());
  if (count <= kExact) return dry_step(config, shape, groups, rows, kernels);
  rows.resize(kExact - 1);
  const MemoryUse fewer = dry_step(config, shape, groups, rows, kernels);
  rows.push_back(rows.back());
  MemoryUse plan = dry_step(config, shape, groups, rows, kernels);
  for (size_t p = 0; p < plan.peak.size(); ++p) plan.peak[p] += (count - kExact) * (plan.peak[p] - fewer.peak[p]);
  plan.total_peak += (count - kExact) * (plan.total_peak - fewer.total_peak);
  return plan;
}

void check_memory(const MemoryUse& plan, int local_ranks, const Device& device) {
  const char* const hint =
      "lower train.micro_batch or backprop.loops (of segmented, checkpointed, truncated), split experts over more "
      "ranks "
      "(layout.expert_parallel) and state with layout.zero, or take a smaller model";
  const auto needed = static_cast<double>(plan.total_peak);
  if (device.memory_in_use) {
    if (plan.total_peak > device.room_bytes)
      throw UsageError(fmt::format("a training step wants {} of tensors, and {} has room for {}", human_bytes(needed),
                                   device.description, human_bytes(static_cast<double>(device.room_bytes))),
                       hint);
    return;
  }
  struct sysinfo machine {};
  if (::sysinfo(&machine) != 0) return;
  const double total = static_cast<double>(machine.totalram) * machine.mem_unit;
  if (needed * local_ranks > total)
    throw UsageError(
        fmt::format("a training step wants {} of tensors per rank, {} for the {} rank(s) of this host, "
                    "which has {} of memory",
                    human_bytes(needed), human_bytes(needed * local_ranks), local_ranks, human_bytes(total)),
        hint);
}

}  // namespace heddle
