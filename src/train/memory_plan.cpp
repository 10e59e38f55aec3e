#include "train/memory_plan.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <limits>

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
    const auto zeros = [&] {
      return Tensor::empty({range.count * config.sequence}, Purpose::kActivations, DType::kInt32);
    };
    micro_batches.push_back({range.count, config.sequence, zeros(), zeros(), zeros(), zeros(), {}});
    if (shape.initial_state == InitialState::kNoise)
      micro_batches.back().noise =
          Tensor::empty({range.count * config.sequence, shape.hidden_size}, Purpose::kActivations);
  }
  step.run(micro_batches, {1, 0, step.largest_loops(), config.statistics_interval > 0});
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

namespace {

/// Memory that one rank's bytes must fit into, with those of the ranks that share it.
struct Room {
  double bytes = std::numeric_limits<double>::infinity();
  int ranks = 1;
  std::string owner = "this host";
};

Room host_room(int local_ranks) {
  struct sysinfo machine {};
  if (::sysinfo(&machine) != 0) return {};
  return {static_cast<double>(machine.totalram) * machine.mem_unit, local_ranks,
          fmt::format("the {} rank(s) of this host", local_ranks)};
}

/// Of tensors: on the rank's GPU, or in the memory of the host.
Room tensor_room(int local_ranks, const Device& device) {
  if (device.memory_in_use) return {static_cast<double>(device.room_bytes), 1, device.description};
  return host_room(local_ranks);
}

void refuse_beyond(const Room& room, double bytes, const std::string& what, const char* hint) {
  if (bytes * room.ranks > room.bytes)
    throw UsageError(fmt::format("{} {} per rank, {} for {}, which has room for {}", what, human_bytes(bytes),
                                 human_bytes(bytes * room.ranks), room.owner, human_bytes(room.bytes)),
                     hint);
}

}  // namespace

void check_batch(const TrainConfig& config, const ModelConfig& model, int ranks, int local_ranks,
                 const Device& device) {
  int64_t largest = 0, all = 0;  // rows; rank 0 never has fewer than another
  for (const RowRange range : micro_batch_rows(config.global_batch, config.micro_batch, 0, ranks)) {
    largest = std::max(largest, range.count);
    all += range.count;
  }
  const auto tokens = [&](int64_t rows) { return static_cast<double>(rows) * static_cast<double>(config.sequence); };
  // Input, target, position and start of the document of each token.
  refuse_beyond(host_room(local_ranks), 4.0 * sizeof(int32_t) * tokens(all),
                fmt::format("the {} sequences of a step take", all),
                "lower train.global_batch or train.sequence_length, or start more ranks");
  const Room room = tensor_room(local_ranks, device);
  const double bytes = 2 * (config.precision == "bfloat16" ? 2.0 : 4.0);
  refuse_beyond(room, bytes * static_cast<double>(model.hidden_size) * tokens(largest),
                fmt::format("states and their gradients of {} sequences in one layer take", largest),
                "lower train.micro_batch or train.sequence_length");
  constexpr int64_t kFew = 32;
  if (largest <= kFew) return;
  // Memory is nearly linear in rows, so that two steps of few tell what those of many take.
  const auto peak_of = [&](int64_t rows) {
    TrainConfig few = config;
    few.micro_batch = rows;
    few.global_batch = rows * ranks;
    return static_cast<double>(plan_memory(few, model, 0, ranks, *device.kernels).total_peak);
  };
  constexpr double kCertain = 0.9;
  const double one = peak_of(1), expected = one + (peak_of(2) - one) * static_cast<double>(largest - 1);
  refuse_beyond(room, kCertain * expected,
                fmt::format("tensors of a step of {} sequences in a micro-batch take", largest),
                "lower train.micro_batch or backprop.loops (of segmented, checkpointed, truncated)");
}

void check_memory(const MemoryUse& plan, int local_ranks, const Device& device) {
  refuse_beyond(tensor_room(local_ranks, device), static_cast<double>(plan.total_peak),
                "the tensors of a training step want",
                "lower train.micro_batch or backprop.loops (of segmented, checkpointed, truncated), split experts over "
                "more ranks (layout.expert_parallel) and state with layout.zero, or take a smaller model");
}

}  // namespace heddle
