// Training steps of a preset at several loop counts, by gradient through all loops and in segments: tokens per second,
// utilisation (operations of the model's formula per second over those of the device, by its data and by a measured
// product) and memory. A step is one micro-batch: the preset's, or the largest half, quarter, ... of it that the
// device's memory holds. Where the loops are one segment both modes are the same and it runs once.
// usage: bench_training_steps --config configs/loom-329m.cfg --data.store STORE --run.device cuda --run.precision
// bfloat16
//          [--bench.loops 1,3,9,12] [--bench.json FILE]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "bench/device/bench_config.h"
#include "bench/device/device_limits.h"
#include "comm/job.h"
#include "data/loader.h"
#include "support/atomic_file.h"
#include "support/log.h"
#include "support/numbers.h"
#include "support/text_table.h"
#include "train/batches.h"
#ifdef HEDDLE_WITH_CUDA
#include "cuda/memory.h"
#endif

namespace heddle::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Settings {
  BenchConfig bench;
  std::vector<int64_t> loops = {1, 3, 9, 12};
  double seconds = 2;
  double budget = 0;
};

struct Row {
  int64_t loops = 0;
  BackPropagationMode mode = BackPropagationMode::kFull;
  int64_t micro_batch = 0;  ///< 0: not even one sequence fits
  int64_t steps = 0;
  double seconds_per_step = 0, tokens_per_second = 0, flops_per_token = 0, loss = 0;
  MemoryUse memory;
  int64_t device_bytes = 0;  ///< in use on the whole device, libraries included; 0 on a CPU
};

bool out_of_memory(const Error& error) {
#ifdef HEDDLE_WITH_CUDA
  if (dynamic_cast<const cuda::OutOfDeviceMemory*>(&error) != nullptr) return true;
#endif
  return dynamic_cast<const OutOfMemory*>(&error) != nullptr;
}

/// A model and what trains it, at one loop count.
struct Trained {
  Trained(const TrainConfig& config, Communicator& world, const Device& device)
      : groups(world, 1),
        model(config.model, groups, *device.kernels, device.activations),
        optimizer(config.optimizer, model.parameters(), groups, *device.kernels) {
    model.parameters().allocate_gradients();
    model.initialise(static_cast<uint64_t>(config.seed));
    model.set_active_loops(config.model.loops);
  }
  ProcessGroups groups;
  LoopedModel model;
  Optimizer optimizer;
};

class StepBench {
 public:
  StepBench(Settings& settings, Job& job, const Device& device)
      : settings_(settings),
        job_(job),
        device_(device),
        clock_(device),
        limits_(device_limits(device, clock_, settings.bench.product_size)),
        store_(TokenStore::open(settings.bench.train.store)) {}

  void run() {
    for (const int64_t loops : settings_.loops) {
      TrainConfig config = at(loops);
      std::optional<Trained> trained;
      for (const BackPropagationMode mode : modes(loops)) {
        if (settings_.budget > 0 && seconds_since(start_) > settings_.budget) {
          not_run_.push_back(fmt::format("{} loops, {}", loops, kBackPropagationModes(mode)));
          continue;
        }
        config.step.back_propagation.mode = mode;
        rows_.push_back(measure(config, trained));
        publish();
      }
    }
    print();
    for (const Row& row : rows_)
      if (row.micro_batch > 0 && !std::isfinite(row.loss))
        fail("the loss at {} loops ({}) is {}", row.loops, kBackPropagationModes(row.mode), row.loss);
  }

 private:
  static double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  TrainConfig at(int64_t loops) const {
    TrainConfig config = settings_.bench.train;
    config.model.loops = loops;
    if (config.model.vocabulary_size == 0) config.model.vocabulary_size = store_.vocabulary_size();
    config.validate();
    return config;
  }

  std::vector<BackPropagationMode> modes(int64_t loops) const {
    const int64_t segment = settings_.bench.train.step.back_propagation.loops;
    if (segment == 0 || loops <= segment) return {BackPropagationMode::kFull};
    return {BackPropagationMode::kFull, BackPropagationMode::kSegmented};
  }

  /// The largest micro-batch that fits; `trained` is made if it is not there yet.
  Row measure(TrainConfig& config, std::optional<Trained>& trained) {
    Row row;
    row.loops = config.model.loops;
    row.mode = config.step.back_propagation.mode;
    for (int64_t micro_batch = settings_.bench.train.micro_batch; micro_batch > 0; micro_batch /= 2) {
      try {
        if (!trained) trained.emplace(config, job_.world(), device_);
        measure_at(config, *trained, micro_batch, row);
        return row;
      } catch (const Error& error) {
        if (!out_of_memory(error)) throw;
      }
      trained.reset();  // what a step leaves behind that broke off would take room
      Allocator::current().release_cache();
    }
    return row;
  }

  void measure_at(const TrainConfig& config, Trained& trained, int64_t micro_batch, Row& row) {
    TrainStep step(trained.model, trained.optimizer, config.step);
    const Loader loader(store_, {config.sequence, micro_batch, static_cast<uint64_t>(config.seed), config.document_mask,
                                 config.unique_tokens});
    const auto one_step = [&](int64_t number) {
      TokenBatch batch = token_batch(loader.fetch(number - 1, 0, micro_batch), {0, micro_batch});
      add_noise(batch, config.model, static_cast<uint64_t>(config.seed), NoiseUse::kTraining,
                (number - 1) * micro_batch);
      return step.run({batch}, {number, config.schedule.factor(number), row.loops});
    };
    Allocator::current().release_cache();
    Allocator::current().reset_peaks();
    one_step(1);
    clock_.wait();
    constexpr int64_t kLeast = 2, kMost = 50;
    const auto start = Clock::now();
    for (row.steps = 0; row.steps < kLeast || (row.steps < kMost && seconds_since(start) < settings_.seconds);) {
      const StepResult result = one_step(2 + row.steps++);
      for (const double loss : result.last_cross_entropy)
        if (!std::isnan(loss) || std::isnan(row.loss)) row.loss = loss;
    }
    clock_.wait();
    row.micro_batch = micro_batch;
    row.seconds_per_step = seconds_since(start) / static_cast<double>(row.steps);
    row.tokens_per_second = static_cast<double>(micro_batch * config.sequence) / row.seconds_per_step;
    row.flops_per_token =
        training_flops_per_token(config.model, config.sequence,
                                 work_of(config.step.back_propagation, config.step.loop_weights, row.loops))
            .total();
    row.memory = Allocator::current().use();
    row.device_bytes = device_bytes_in_use(device_);
  }

  /// NaN where the speed is not known.
  double utilisation(const Row& row, const Speed& speed) const {
    const double flops = speed.flops_per_second[device_.activations == DType::kFloat32 ? 0 : 1];
    return flops > 0 ? row.tokens_per_second * row.flops_per_token / flops : std::nan("");
  }
  static std::string percent(double share) { return std::isnan(share) ? "-" : fmt::format("{:.1f}%", 100 * share); }

  void publish() const {
    if (settings_.bench.json.empty()) return;
    nlohmann::json list = nlohmann::json::array();
    for (const Row& row : rows_)
      list.push_back({{"loops", row.loops},
                      {"mode", kBackPropagationModes(row.mode)},
                      {"micro_batch", row.micro_batch},
                      {"steps", row.steps},
                      {"seconds_per_step", row.seconds_per_step},
                      {"tokens_per_second", row.tokens_per_second},
                      {"flops_per_token", row.flops_per_token},
                      {"utilisation", utilisation(row, limits_.peak)},
                      {"measured_utilisation", utilisation(row, limits_.measured)},
                      {"loss", std::isfinite(row.loss) ? nlohmann::json(row.loss) : nlohmann::json(nullptr)},
                      {"peak_bytes", row.memory.total_peak},
                      {"reserved_bytes", row.memory.reserved},
                      {"device_bytes", row.device_bytes}});
    const TrainConfig& train = settings_.bench.train;
    publish_text(settings_.bench.json, nlohmann::json{{"device", to_json(limits_)},
                                                      {"preset", preset_name(train)},
                                                      {"sequence_length", train.sequence},
                                                      {"precision", train.precision},
                                                      {"segment_loops", train.step.back_propagation.loops},
                                                      {"steps", std::move(list)},
                                                      {"not_run", not_run_}}
                                               .dump(2) +
                                           "\n");
  }

  void print() const {
    publish();
    using Align = TextTable::Align;
    TextTable table({{"loops"},
                     {"mode", Align::kLeft},
                     {"sequences"},
                     {"s/step"},
                     {"tok/s"},
                     {"util"},
                     {"of measured"},
                     {"peak"},
                     {"device"},
                     {"loss"}});
    for (const Row& row : rows_) {
      if (row.micro_batch == 0) {
        table.add_row({fmt::format("{}", row.loops), kBackPropagationModes(row.mode), "does not fit", "", "", "", "",
                       "", "", ""});
        continue;
      }
      table.add_row({fmt::format("{}", row.loops), kBackPropagationModes(row.mode), fmt::format("{}", row.micro_batch),
                     fmt::format("{:.4f}", row.seconds_per_step), fmt::format("{:.0f}", row.tokens_per_second),
                     percent(utilisation(row, limits_.peak)), percent(utilisation(row, limits_.measured)),
                     human_bytes(static_cast<double>(row.memory.total_peak)),
                     human_bytes(static_cast<double>(row.device_bytes)), fmt::format("{:.3f}", row.loss)});
    }
    log_line(table.render(0));
    for (const std::string& what : not_run_) log_line("not run, since bench.budget was used up: " + what);
  }

  Settings& settings_;
  Job& job_;
  const Device& device_;
  DeviceClock clock_;
  const DeviceLimits limits_;
  const TokenStore store_;
  const Clock::time_point start_ = Clock::now();
  std::vector<Row> rows_;
  std::vector<std::string> not_run_;
};

}  // namespace
}  // namespace heddle::bench

int main(int count, char** arguments) {
  using namespace heddle;
  bench::Settings settings;
  return bench::run_bench(
      count, arguments, settings.bench,
      [&](Config& keys) {
        keys.add("bench.loops", settings.loops, {1, 1024, false, false}, "loop counts");
        keys.add("bench.seconds", settings.seconds, {0, 3600, false, false},
                 "of steps that are timed at each count, at least two steps");
        keys.add("bench.budget", settings.budget, {0, 86400, false, false},
                 "seconds after which nothing new is started; 0: no limit");
      },
      [&] {
        Job job;
        const auto device = open_device(job, settings.bench.train.device, settings.bench.train.precision);
        bench::StepBench(settings, job, device->device()).run();
      });
}
