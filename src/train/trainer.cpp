#include "train/trainer.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>

#include "analysis/diagnose.h"
#include "analysis/run_log.h"
#include "analysis/tensorboard_log.h"
#include "comm/collective_guard.h"
#include "data/prefetcher.h"
#include "model/counting.h"
#include "support/atomic_file.h"
#include "support/file_lock.h"
#include "support/log.h"
#include "support/numbers.h"
#include "support/stop_signal.h"
#include "train/batches.h"
#include "train/checkpoint.h"
#include "train/device_peak.h"
#include "train/growth.h"
#include "train/memory_plan.h"
#include "train/progress.h"
#include "train/resumed_config.h"
#include "train/run_files.h"
#include "train/startup_report.h"

namespace heddle {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// One run on one rank.
class Run {
 public:
  Run(Job& job, const TrainConfig& config, const std::string& resolved, const Device& device)
      : job_(job),
        device_(device),
        guard_(config.check_collectives ? guard_collectives(job.world()) : nullptr),
        world_(guard_ != nullptr ? *guard_ : job.world()),
        config_(config),
        resolved_(resolved),
        store_(TokenStore::open(config.store)),
        model_config_(complete(config.model)),
        memory_plan_(checked_plan(job, config, model_config_, device)),
        groups_(world_, static_cast<int>(config.expert_parallel)),
        model_(model_config_, groups_, *device.kernels, device.activations),
        loops_(config.loop_schedule, model_config_.loops, static_cast<uint64_t>(config.seed)),
        optimizer_(config.optimizer, model_.parameters(), groups_, *device.kernels),
        step_(model_, optimizer_, config.step),
        loader_(store_, {config.sequence, config.global_batch, static_cast<uint64_t>(config.seed), config.document_mask,
                         config.unique_tokens}),
        rows_(micro_batch_rows(config.global_batch, config.micro_batch, world_.rank(), world_.size())),
        bytes_of_(token_bytes(store_)) {
    groups_.set_exchange_chunks(config.exchange_chunks);
    model_.parameters().allocate_gradients();
    info_.config = resolved;
    info_.tokenizer_kind = store_.tokenizer_kind();
    info_.tokenizer_fingerprint = store_.tokenizer_fingerprint();
    info_.tokenizer = store_.tokenizer_bytes();
    info_.data_hash = store_.content_hash();
  }

  TrainOutcome go() {
    prepare();
    const double peak = measure_peak_flops(world_, model_.kernels(), device_.activations);
    log_line(startup_report(job_, config_, store_, model_, device_, peak, memory_plan_));
    peak_flops_ = peak;
    Allocator::current().reset_peaks();
    const int64_t last = config_.stop_after > 0 ? std::min(config_.stop_after, config_.steps) : config_.steps;
    if (config_.checkpoint_interval == 0)
      log_line("run.checkpoint_interval is 0: the only checkpoint comes at the end, or at a stop by SIGTERM");
    Prefetcher prefetch([this](int64_t step) { return fetch(step); }, done_);
    while (done_ < last && !outcome_.stopped) {
      one_step(prefetch.next());
      if (outcome_.stopped || done_ == last) break;
      if (config_.validation_interval > 0 && done_ % config_.validation_interval == 0) validate();
      save_due_ |= config_.checkpoint_interval > 0 && done_ % config_.checkpoint_interval == 0;
      // In a streak of skipped steps the weights stand still: saving would only push older checkpoints out.
      if (save_due_ && skips_in_row_ == 0) save();
    }
    save();
    if (steps_in_session_ > 0 && !learnt_ && !outcome_.stopped)
      throw Error(fmt::format("every step of this session was skipped ({}): nothing was learnt", steps_in_session_),
                  "lower optimizer.learning_rate, or look at the start values and scales; see docs/troubleshooting.md");
    if (steps_in_session_ > 1) write_record(memory_record());
    if (!outcome_.stopped) validate(0);
    if (outcome_.stopped)
      log_line(fmt::format("stopped by a signal after step {}; go on with --run.resume true", done_));
    log_line(memory_report(world_, memory_plan_, device_));
    outcome_.steps_done = done_;
    outcome_.tokens_per_second = session_seconds_ > 0 ? session_tokens_ / session_seconds_ : 0;
    outcome_.peak_bytes = Allocator::current().use().total_peak;
    world_.all_reduce_max(std::span<int64_t>(&outcome_.peak_bytes, 1));
    return outcome_;
  }

 private:
  /// Before anything large is allocated.
  static MemoryUse checked_plan(Job& job, const TrainConfig& config, const ModelConfig& model, const Device& device) {
    try {
      check_batch(config, model, job.world().size(), job.local_size(), device);
      const MemoryUse plan = plan_memory(config, model, job.world().rank(), job.world().size(), *device.kernels);
      check_memory(plan, job.local_size(), device);
      return plan;
    } catch (const std::bad_alloc&) {
      throw UsageError("a training step is too large even to be planned",
                       "lower train.micro_batch, train.global_batch or train.sequence_length");
    }
  }

  ModelConfig complete(ModelConfig model) const {
    if (model.vocabulary_size == 0) model.vocabulary_size = store_.vocabulary_size();
    if (model.vocabulary_size < store_.vocabulary_size())
      throw UsageError(fmt::format("model.vocabulary_size = {}, but the token store has {} ids", model.vocabulary_size,
                                   store_.vocabulary_size()),
                       "use 0 to take the store's, or a larger number to pad");
    return model;
  }

  std::string folder(const char* name) const { return (fs::path(config_.directory) / name).string(); }
  bool speaks() const { return world_.rank() == 0; }

  /// Rank 0 decides about files; the others follow.
  void prepare() {
    std::vector<std::string> candidates;
    on_rank_0([&] {
      fs::create_directories(config_.directory);
      // The lock first: it refuses a second run before that one has read or changed anything.
      lock_.emplace(folder("run.lock"), fmt::format("the run '{}'", config_.directory));
      candidates = find_checkpoints(config_.directory, config_.resume);
      verify_store(store_);
    });
    std::istringstream lines(all_gather_text(world_, fmt::format("{}", fmt::join(candidates, "\n")))[0]);
    bool resumed = false;
    std::string refused;
    for (std::string path; !resumed && std::getline(lines, path);) resumed = resume(path, refused);
    if (!resumed && !refused.empty())
      throw Error(fmt::format("no checkpoint of '{}' can be read; the newest: {}", config_.directory, refused),
                  "start anew in another run.directory");
    if (!resumed) model_.initialise(static_cast<uint64_t>(config_.seed));
    model_.set_active_loops(loops_.active(done_));
    on_rank_0([&] {
      log_.emplace(open_run_log(folder("log.h5"), log_header(), done_));
      if (config_.tensorboard) tensorboard_.emplace(folder("tensorboard"), log_header(), done_);
      publish_text(folder("config.ini"), resolved_);
    });
  }

  /// What rank 0 does alone; if it fails, all ranks throw.
  template <typename Work>
  void on_rank_0(Work work) {
    std::string failure, hint;
    if (speaks()) {
      try {
        work();
      } catch (const Error& error) {
        failure = error.what();
        hint = error.hint();
      } catch (const std::exception& error) {
        failure = error.what();
        hint = "run.directory must be a folder that can be written";
      }
    }
    throw_if_any_failed(world_, failure, hint);
  }

  /// False, with a warning, for a checkpoint that is damaged inside; throws for one that is of another run.
  bool resume(const std::string& path, std::string& refused) {
    try {
      CheckpointInfo info;
      reading_together(world_, [&] { info = read_checkpoint_info(path); });
      const std::string changes = check_same_run(path, info);
      load_model(path, model_);
      load_training_state(path, model_, optimizer_, step_.spike_guard());
      done_ = info.step;
      if (!changes.empty()) log_warning("resuming with changed settings: " + changes);
    } catch (const DamagedCheckpoint& error) {
      if (refused.empty()) refused = error.what();
      log_warning(fmt::format("ignoring '{}': {}", path, error.what()));
      damaged_.push_back(path);
      return false;
    }
    log_line(fmt::format("resuming from '{}' after step {}", path, done_));
    return true;
  }

  std::string check_same_run(const std::string& path, const CheckpointInfo& info) const {
    if (info.data_hash != store_.content_hash())
      throw Error(fmt::format("'{}' was trained on other data than '{}' (content hash {} against {})", path,
                              config_.store, info.data_hash, store_.content_hash()),
                  "resume with the store of the run; a new run.directory starts afresh");
    return fmt::format("{}", fmt::join(compare_resumed_config(path, info.config, resolved_), "; "));
  }

  RunLogHeader log_header() const {
    RunLogHeader h;
    h.config = resolved_;
    h.layers = model_config_.layers;
    h.loops = step_.largest_loops();
    h.experts = model_config_.any_moe() ? model_config_.moe.experts : 0;
    h.top_k = model_config_.any_moe() ? model_config_.moe.top_k : 0;
    for (int64_t l = 0; l < model_.stored_moe_layers(); ++l)
      h.balance_rows += model_.balance_bias(l).count() / h.experts;
    h.segments = static_cast<int64_t>(step_.segment_count());
    h.ranks = world_.size();
    h.expert_parallel = config_.expert_parallel;
    h.steps = config_.steps;
    h.warmup_steps = config_.schedule.warmup_steps();
    h.statistics_interval = config_.statistics_interval;
    for (int p = 0; p < kPurposes; ++p) h.purposes.emplace_back(purpose_name(static_cast<Purpose>(p)));
    h.flops_per_token = config_.mean_training_flops(model_config_).total();
    return h;
  }

  double flops_per_token(int64_t loops) const {
    const LoopWork work = work_of(config_.step.back_propagation, config_.step.loop_weights, loops);
    return training_flops_per_token(model_config_, config_.sequence, work).total();
  }

  /// This rank's rows of a step, all micro-batches behind each other.
  Batch fetch(int64_t step) const {
    Batch all;
    all.sequence_length = config_.sequence;
    for (const RowRange range : rows_) {
      const Batch part = loader_.fetch(step, range.first, range.count);
      const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
      append(all.inputs, part.inputs);
      append(all.targets, part.targets);
      append(all.positions, part.positions);
      append(all.document_start, part.document_start);
      append(all.samples, part.samples);
      all.rows += part.rows;
    }
    return all;
  }

  void one_step(const Batch& batch) {
    const auto start = Clock::now();
    const int64_t traffic_before = world_bytes();
    std::vector<TokenBatch> micro_batches;
    int64_t first = 0;
    for (const RowRange range : rows_) {
      micro_batches.push_back(token_batch(batch, {first, range.count}));
      add_noise(micro_batches.back(), model_config_, static_cast<uint64_t>(config_.seed), NoiseUse::kTraining,
                done_ * config_.global_batch + range.first);
      first += range.count;
    }
    const double factor = config_.schedule.factor(done_ + 1);
    collective_place() = {.step = done_ + 1};
    if (loops_.grows_at(done_ + 1)) {
      log_line(fmt::format("growing from {} to {} loops before step {}", model_.active_loops(), model_config_.loops,
                           done_ + 1));
      grow(model_, optimizer_);
    }
    const StepResult result =
        step_.run(micro_batches, {done_ + 1, factor, loops_.loops(done_ + 1), looks_at(done_ + 1)});
    ++done_;
    collective_place() = {.step = done_};
    // One sum for all that ranks must agree on: text bytes, exchanged bytes, and whether a signal reached any of them.
    double bytes[3] = {0, static_cast<double>(world_bytes() - traffic_before), StopSignal::received() != 0 ? 1.0 : 0.0};
    for (const int32_t target : batch.targets)
      if (target != data::kIgnoredTarget) bytes[0] += bytes_of_[static_cast<size_t>(target)];
    world_.all_reduce_sum(std::span<double>(bytes));
    outcome_.stopped = bytes[2] > 0;

    StepRecord record;
    record.step = done_;
    record.time = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    record.learning_rate = config_.optimizer.learning_rate * factor;
    record.tokens = static_cast<double>(result.counted_targets);
    record.bytes = bytes[0];
    record.exchange_bytes = bytes[1];
    record.loops = result.loops;
    record.segment_loss = result.last_cross_entropy;
    record.objective = result.segment_loss;
    if (model_config_.any_moe()) {
      record.aux_loss = result.aux;
      record.router_z_loss = result.router_z;
    }
    record.gradient_norm = result.gradient_norm;
    record.skipped = result.skipped;
    for (const double loss : record.segment_loss)
      if (!std::isnan(loss)) record.loss = loss;
    if (std::isnan(record.segment_loss[0])) record.loss = std::nan("");
    const RoutingStatistics& statistics = step_.statistics();
    record.state_rms = statistics.state_rms();
    record.block_rms = statistics.block_rms();
    record.load = statistics.loads();
    record.dropped = statistics.dropped();
    record.overlap = statistics.overlap();
    for (int64_t l = 0; l < model_.stored_moe_layers(); ++l) {
      const std::vector<float> bias = model_.balance_bias(l).get<float>();
      record.balance_bias.insert(record.balance_bias.end(), bias.begin(), bias.end());
    }
    record.step_seconds = seconds_since(start);
    session_seconds_ += record.step_seconds;
    session_tokens_ += record.tokens;
    interval_seconds_ += record.step_seconds;
    interval_tokens_ += record.tokens;
    interval_flops_ += record.tokens * flops_per_token(record.loops);
    ++interval_steps_;
    write_record(record);
    if (result.look) {
      write_record(*result.look);
      sound_alarms(record, *result.look);
    }
    if (steps_in_session_ == 0) write_record(memory_record());
    watch_skips(record, batch);
    if (done_ % config_.log_interval == 0 || done_ == config_.steps) print_progress(record);
  }

  /// The first step of a session too, so that what is wrong from the start is seen at once.
  bool looks_at(int64_t step) const {
    return config_.statistics_interval > 0 && (step % config_.statistics_interval == 0 || steps_in_session_ == 0);
  }

  int64_t world_bytes() { return groups_.expert_parallel().traffic().exchange_bytes; }

  /// Largest over ranks, of each purpose by itself. Collective.
  MemoryRecord memory_record() {
    const MemoryUse use = Allocator::current().use();
    std::vector<int64_t> numbers(use.peak.begin(), use.peak.end());
    numbers.insert(numbers.end(), memory_plan_.peak.begin(), memory_plan_.peak.end());
    numbers.insert(numbers.end(), {use.total_peak, memory_plan_.total_peak});
    world_.all_reduce_max(std::span<int64_t>(numbers));
    const auto planned = numbers.begin() + kPurposes, totals = planned + kPurposes;
    return {done_, {numbers.begin(), planned}, {planned, totals}, totals[0], totals[1]};
  }

  template <typename Record>
  void write_record(const Record& record) {
    std::string failure;
    if (log_) {
      try {
        log_->append(record);
        if (tensorboard_) tensorboard_->append(record);
      } catch (const std::exception& error) {
        failure = error.what();
      }
    }
    throw_if_any_failed(world_, failure, "the last checkpoint is untouched");
  }

  void watch_skips(const StepRecord& record, const Batch& batch) {
    const bool skipped = std::any_of(record.skipped.begin(), record.skipped.end(), [](int64_t s) { return s != 0; });
    skips_in_row_ = skipped ? skips_in_row_ + 1 : 0;
    ++steps_in_session_;
    // A piece that a step does not have is not skipped either, but has no objective.
    for (size_t s = 0; s < record.skipped.size(); ++s)
      learnt_ |= record.skipped[s] == 0 && !std::isnan(record.objective[s]);
    if (!skipped) return;
    log_warning(fmt::format("step {} was skipped: loss {}, gradient norm {}; rank 0 had samples {}", done_, record.loss,
                            last_norm(record), fmt::join(batch.samples, ", ")));
    if (skips_in_row_ >= config_.skip_limit)
      throw Error(fmt::format("{} steps in a row were skipped (run.skip_limit)", skips_in_row_),
                  "lower optimizer.learning_rate, or resume from the last checkpoint; see docs/troubleshooting.md");
  }

  /// Says what a look shows, once until it is over.
  void sound_alarms(const StepRecord& record, const StatisticsRecord& look) {
    if (!speaks()) return;
    std::set<std::string> sounding;
    for (const Finding& f : alarms(log_header(), record, look)) {
      if (alarms_.count(f.kind) == 0) log_warning(fmt::format("step {}: {} (fix: {})", done_, f.what, f.fix));
      sounding.insert(f.kind);
    }
    alarms_ = sounding;
  }

  /// Norm of the step's last update that was tried.
  static double last_norm(const StepRecord& record) {
    double last = std::nan("");
    for (const double norm : record.gradient_norm)
      if (!std::isnan(norm)) last = norm;
    return last;
  }

  void print_progress(const StepRecord& record) {
    Progress p;
    p.step = done_;
    p.steps = config_.steps;
    p.seconds_per_step = interval_seconds_ / static_cast<double>(interval_steps_);
    p.loss = record.loss;
    p.bits_per_byte = bits_per_byte(record.loss * record.tokens, record.bytes);
    p.gradient_norm = last_norm(record);
    p.learning_rate = record.learning_rate;
    p.tokens_per_second = interval_tokens_ / interval_seconds_;
    p.utilisation = utilisation(interval_flops_ / std::max(interval_tokens_, 1.0), p.tokens_per_second, peak_flops_);
    p.largest_share = model_config_.any_moe() ? largest_expert_share(record.load, model_config_.moe.experts) : -1;
    p.overlap = mean_of(record.overlap);
    log_line(progress_line(p));
    interval_seconds_ = interval_tokens_ = interval_flops_ = 0;
    interval_steps_ = 0;
  }

  void validate() { validate(config_.validation_samples); }
  void validate(int64_t samples) {
    if (!store_.has(Part::kValidation)) {
      log_warning("the token store has no validation part: no validation");
      return;
    }
    const auto start = Clock::now();
    EvaluationOptions options;
    options.sequence = config_.sequence;
    options.micro_batch = config_.micro_batch;
    options.samples = samples;
    options.document_mask = config_.document_mask;
    options.seed = static_cast<uint64_t>(config_.seed);
    options.interrupted = [this] {
      int64_t signal = StopSignal::received() != 0 ? 1 : 0;
      world_.all_reduce_max(std::span<int64_t>(&signal, 1));
      outcome_.stopped = signal != 0;
      return outcome_.stopped;
    };
    const std::vector<EvaluationResult> results = evaluate(model_, store_, Part::kValidation, options);
    if (results.empty()) return;
    const EvaluationResult& result = results.front();
    outcome_.validation_bits_per_byte = result.bits_per_byte;
    write_record(ValidationRecord{done_, result.nats_per_token, result.bits_per_byte, result.targets});
    log_line(fmt::format("validation after step {}: loss {:.4f}, {:.4f} bits per byte over {} tokens ({:.1f} s)", done_,
                         result.nats_per_token, result.bits_per_byte, result.targets, seconds_since(start)));
  }

  void save() {
    save_due_ = false;
    info_.step = done_;
    outcome_.checkpoint = save_checkpoint(folder("checkpoints"), config_.keep_checkpoints, config_.writer(), info_,
                                          model_, optimizer_, step_.spike_guard(), damaged_);
    log_line(fmt::format("saved {}", outcome_.checkpoint));
  }

  Job& job_;
  const Device& device_;
  std::unique_ptr<Communicator> guard_;
  Communicator& world_;
  TrainConfig config_;
  std::string resolved_;
  TokenStore store_;
  ModelConfig model_config_;
  MemoryUse memory_plan_;
  std::vector<std::string> damaged_;  ///< checkpoints that could not be resumed from
  ProcessGroups groups_;
  LoopedModel model_;
  LoopSchedule loops_;
  Optimizer optimizer_;
  TrainStep step_;
  Loader loader_;
  std::vector<RowRange> rows_;
  std::vector<double> bytes_of_;
  CheckpointInfo info_;
  std::optional<FileLock> lock_;  ///< rank 0 only, like the log
  std::optional<RunLogWriter> log_;
  std::optional<TensorboardLog> tensorboard_;
  std::set<std::string> alarms_;  ///< kinds of findings that the last look had
  bool save_due_ = false;
  TrainOutcome outcome_;
  int64_t done_ = 0;
  int64_t skips_in_row_ = 0, steps_in_session_ = 0;
  bool learnt_ = false;  ///< in this session: any update was made
  double peak_flops_ = 0;
  double session_seconds_ = 0, session_tokens_ = 0;
  double interval_seconds_ = 0, interval_tokens_ = 0, interval_flops_ = 0;
  int64_t interval_steps_ = 0;
};

}  // namespace

TrainOutcome train(Job& job, TrainConfig config, const std::string& resolved, const Device& device) {
  config.validate();
  check_layout(job.world().size(), static_cast<int>(config.expert_parallel), config.layout_experts());
  Run run(job, config, resolved, device);
  return run.go();
}

}  // namespace heddle
