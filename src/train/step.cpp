#include "train/step.h"

#include <cmath>

#include "comm/collective_guard.h"
#include "moe/balance.h"
#include "optim/gradients.h"

namespace heddle {

std::vector<std::pair<int64_t, int64_t>> segments_of(int64_t loops, int64_t segment_loops) {
  const int64_t length = segment_loops > 0 ? segment_loops : loops;
  std::vector<std::pair<int64_t, int64_t>> segments;
  for (int64_t first = 0; first < loops; first += length) segments.emplace_back(first, std::min(first + length, loops));
  return segments;
}

TrainStep::TrainStep(Loom& model, Optimizer& optimizer, const StepConfig& config)
    : model_(model),
      optimizer_(optimizer),
      config_(config),
      segments_(segments_of(model.config().loops, config.segment_loops)),
      spike_guard_(segments_.size()),
      statistics_(model.config().loops, model.config().layers, model.config().moe.experts, model.config().norm_eps) {}

double TrainStep::run_segment(const std::vector<TokenBatch>& micro_batches, size_t segment, double gradient_scale) {
  const auto [first, last] = segments_[segment];
  Loom::Options options;
  options.observer = &statistics_;
  double loss_sum = 0;
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    const TokenBatch& batch = micro_batches[i];
    statistics_.select_micro_batch(i);
    Tape tape(model_.kernels());
    const Variable embedding = model_.embed(tape, batch, options);
    LoopState state = first == 0 ? Loom::start(embedding) : Loom::resume(carries_[i]);
    model_.run_loops(tape, batch, embedding, first, last, options, state);
    loss_sum += model_.loss_sum(tape, state.state, batch, gradient_scale);
    carries_[i] = segment + 1 < segments_.size() ? Loom::detach(state) : LoopCarry{};
    state = {};
    tape.backward();
    collective_place() = {.step = collective_place().step, .segment = static_cast<int64_t>(segment)};
  }
  return loss_sum;
}

bool TrainStep::update(size_t segment, double loss, double schedule_factor, int64_t global_step, StepResult& result) {
  reduce_gradients(model_.parameters(), optimizer_.shards());
  const double norm = gradient_norm(model_.parameters(), model_.groups(), optimizer_.shards(), model_.kernels());
  result.gradient_norm[segment] = norm;
  const bool spike = config_.spike_guard && spike_guard_.is_spike(segment, loss);
  if (!std::isfinite(norm) || !std::isfinite(loss) || spike) return false;
  spike_guard_.accept(segment, loss);
  optimizer_.step(schedule_factor, global_step, clip_factor(norm, config_.clip_norm));
  return true;
}

StepResult TrainStep::run(const std::vector<TokenBatch>& micro_batches, double schedule_factor, int64_t global_step) {
  Communicator& world = model_.groups().world();
  StepResult result;
  result.segment_loss.assign(segments_.size(), std::nan(""));
  result.gradient_norm.assign(segments_.size(), std::nan(""));
  result.skipped.assign(segments_.size(), 1);
  for (const TokenBatch& batch : micro_batches)
    for (int64_t i = 0; i < batch.targets.count(); ++i)
      result.counted_targets += batch.targets.i32()[i] != kIgnoredTarget;
  world.all_reduce_sum(std::span<int64_t>(&result.counted_targets, 1));
  if (result.counted_targets == 0) return result;  // nothing to learn from: a skipped step

  const double inverse_count = 1 / static_cast<double>(result.counted_targets);
  statistics_.begin_step(micro_batches.size());
  carries_.assign(micro_batches.size(), {});
  bool healthy = true;
  for (size_t segment = 0; segment < segments_.size() && healthy; ++segment) {
    model_.parameters().clear_gradients();
    collective_place().segment = static_cast<int64_t>(segment);
    double loss = run_segment(micro_batches, segment, inverse_count);
    world.all_reduce_sum(std::span<double>(&loss, 1));
    loss *= inverse_count;
    result.segment_loss[segment] = loss;
    healthy = update(segment, loss, schedule_factor, global_step, result);
    result.skipped[segment] = healthy ? 0 : 1;
  }
  carries_.clear();
  statistics_.reduce(world);
  if (healthy && config_.balance_rate > 0)
    for (int64_t l = 0; l < model_.config().layers; ++l)
      update_balance_bias(statistics_.layer_load(l), static_cast<float>(config_.balance_rate), model_.balance_bias(l));
  Allocator::current().end_step();
  return result;
}

}  // namespace heddle
