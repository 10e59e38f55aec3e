#include "train/step.h"

#include <cmath>

#include "comm/collective_guard.h"
#include "moe/balance.h"

namespace heddle {

TrainStep::TrainStep(LoopedModel& model, Optimizer& optimizer, const StepConfig& config)
    : model_(model),
      optimizer_(optimizer),
      config_(config),
      largest_loops_(std::max(config.largest_loops, model.config().loops)),
      segments_(pieces_of(config.back_propagation, largest_loops_).size()),
      spike_guard_(segments_),
      statistics_(model, largest_loops_),
      looks_(model, largest_loops_, config.statistics_stride),
      router_losses_{model.config().moe.aux_loss, model.config().moe.router_z_loss, model.config().moe.aux_scope,
                     config.measure_router_losses},
      piece_run_(model, config_.loop_weights, router_losses_, &observers_),
      reduction_(model.parameters(), optimizer.shards(), config_.reduction_bucket) {}

/// Targets that count and tokens of all ranks: every rank learns the same numbers.
std::vector<MicroStep> TrainStep::count(const std::vector<TokenBatch>& micro_batches, StepResult& result) const {
  std::vector<int64_t> counts(1 + micro_batches.size(), 0);
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    const std::vector<int32_t> targets = micro_batches[i].targets.get<int32_t>();
    counts[1 + i] = static_cast<int64_t>(targets.size());
    for (const int32_t target : targets) counts[0] += target != kIgnoredTarget;
  }
  model_.groups().world().all_reduce_sum(std::span<int64_t>(counts));
  result.counted_targets = counts[0];
  double tokens = 0;
  for (size_t i = 1; i < counts.size(); ++i) tokens += static_cast<double>(counts[i]);
  std::vector<MicroStep> steps;
  for (size_t i = 1; i < counts.size(); ++i)
    steps.push_back({1 / static_cast<double>(std::max<int64_t>(counts[0], 1)), counts[i],
                     static_cast<double>(counts[i]) / std::max(tokens, 1.0)});
  return steps;
}

PieceSums TrainStep::run_piece(const std::vector<TokenBatch>& micro_batches, const std::vector<MicroStep>& micro_steps,
                               const Piece& piece, bool last, bool updates) {
  PieceSums total;
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    statistics_.select_micro_batch(i);
    looks_.select_micro_batch(i);
    const bool completes = updates && i + 1 == micro_batches.size();
    const PieceSums sums =
        piece_run_.run(micro_batches[i], piece, micro_steps[i], &carries_[i], !last, completes ? &reduction_ : nullptr);
    total.cross_entropy += sums.cross_entropy;
    total.last_cross_entropy += sums.last_cross_entropy;
    total.logit_z += sums.logit_z;
    total.aux += sums.aux;
    total.router_z += sums.router_z;
    collective_place() = {.step = collective_place().step, .segment = collective_place().segment};
  }
  return total;
}

void TrainStep::report(size_t segment, PieceSums sums, StepResult& result) const {
  double all[] = {sums.cross_entropy, sums.last_cross_entropy, sums.logit_z, sums.aux, sums.router_z};
  model_.groups().world().all_reduce_sum(std::span<double>(all));
  const double inverse_count = 1 / static_cast<double>(result.counted_targets);
  result.cross_entropy[segment] = all[0] * inverse_count;
  result.last_cross_entropy[segment] = all[1] * inverse_count;
  result.aux[segment] = all[3];
  result.router_z[segment] = all[4];
  result.segment_loss[segment] = all[0] * inverse_count + model_.config().logit_z_loss * all[2] * inverse_count +
                                 router_losses_.aux * all[3] + router_losses_.z * all[4];
}

bool TrainStep::update(size_t segment, const StepPlan& plan, StepResult& result) {
  const double loss = result.segment_loss[segment];
  reduction_.finish();
  const double norm = gradient_norm(model_.parameters(), model_.groups(), optimizer_.shards(), model_.kernels());
  result.gradient_norm[segment] = norm;
  const bool spike = config_.spike_guard && spike_guard_.is_spike(segment, loss);
  if (!std::isfinite(norm) || !std::isfinite(loss) || spike) return false;
  spike_guard_.accept(segment, loss);
  optimizer_.step(plan.schedule_factor, plan.step, clip_factor(norm, config_.clip_norm));
  return true;
}

void TrainStep::balance() {
  if (config_.balance_rate <= 0) return;
  const int64_t experts = model_.config().moe.experts;
  for (int64_t stored = 0; stored < model_.stored_moe_layers(); ++stored) {
    const Tensor& bias = model_.balance_bias(stored);
    const int64_t rows = bias.count() / experts;
    for (int64_t row = 0; row < rows; ++row)
      update_balance_bias(statistics_.stored_load(stored, rows > 1 ? row : -1),
                          static_cast<float>(config_.balance_rate), bias.flat(row * experts, {experts}));
  }
}

StepResult TrainStep::run(const std::vector<TokenBatch>& micro_batches, const StepPlan& plan) {
  StepResult result;
  for (std::vector<double>* list : {&result.segment_loss, &result.cross_entropy, &result.last_cross_entropy,
                                    &result.aux, &result.router_z, &result.gradient_norm})
    list->assign(segments_, std::nan(""));
  result.loops = plan.loops > 0 ? plan.loops : model_.config().loops;
  const std::vector<Piece> pieces = pieces_of(config_.back_propagation, result.loops);
  result.skipped.assign(segments_, 0);
  std::fill_n(result.skipped.begin(), pieces.size(), 1);
  const std::vector<MicroStep> micro_steps = count(micro_batches, result);
  if (result.counted_targets == 0) return result;  // nothing to learn from: a skipped step

  statistics_.begin_step(micro_batches.size());
  observers_.assign({&statistics_});
  if (plan.look) {
    looks_.begin_step(micro_batches.size(), micro_batches.front().sequence);
    observers_.assign({&statistics_, &looks_});
  }
  carries_.assign(micro_batches.size(), {});
  const bool update_each = config_.back_propagation.step_per_segment;
  bool healthy = true;
  for (size_t segment = 0; segment < pieces.size() && healthy; ++segment) {
    const bool last = segment + 1 == pieces.size();
    if (segment == 0 || update_each) model_.parameters().clear_gradients();
    collective_place().segment = static_cast<int64_t>(segment);
    const bool updates = update_each || last;
    report(segment, run_piece(micro_batches, micro_steps, pieces[segment], last, updates), result);
    if (!updates) continue;
    healthy = update(segment, plan, result);
    if (healthy)
      std::fill_n(result.skipped.begin() + static_cast<std::ptrdiff_t>(update_each ? segment : 0),
                  update_each ? 1 : pieces.size(), 0);
  }
  carries_.clear();
  statistics_.reduce(model_.groups().world());
  if (plan.look) {
    result.look = looks_.finish(model_.groups().world());
    result.look->step = plan.step;
  }
  if (healthy) balance();
  Allocator::current().end_step();
  return result;
}

}  // namespace heddle
