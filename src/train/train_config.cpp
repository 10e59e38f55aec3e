#include "train/train_config.h"

#include <algorithm>

namespace heddle {

namespace {

void declare_muon(Config& c, MuonConfig& muon) {
  c.add("muon.learning_rate", muon.learning_rate, {0, 1e3, true, false}, "Muon, MuonH: peak learning rate of matrices");
  c.add("muon.momentum", muon.momentum, {0, 1, false, true}, "Muon, MuonH: momentum");
  c.add("muon.momentum_start", muon.momentum_start, {-1, 1, false, true}, "momentum of step 1; -1: muon.momentum");
  c.add("muon.momentum_steps", muon.momentum_steps, {0, 1e12, false, false},
        "steps from muon.momentum_start to muon.momentum; 0: none");
  c.add("muon.weight_decay", muon.weight_decay, {0, 1e3, false, false}, "Muon: decoupled decay of matrices");
  c.add("muon.orthogonalise", muon.orthogonalise, {"newton_schulz", "polar_express"}, "iteration of Muon and MuonH");
  c.add("muon.ns_steps", muon.ns_steps, {1, 100, false, false}, "its steps; polar_express: up to 5");
  c.add("muon.ns_eps", muon.ns_eps, {0, 1, true, false}, "newton_schulz: added to the norm that it divides by");
  c.add("muon.row_normalise", muon.row_normalise, "divide each row by its norm before that");
  c.add("muon.second_moment", muon.second_moment, {0, 1, false, true},
        "decay of the mean squares by which rows or columns are evened out after that; 0: off");
  c.add("muon.cautious", muon.cautious, "Muon: decay only elements that the step makes smaller");
  c.add("muon.routers", muon.routers, "Muon, MuonH: routers too; false: they are AdamW's");
}

void declare_optimizer(Config& c, OptimizerConfig& optimizer) {
  const Limits factor{0, 1e6, false, false};
  c.add("optimizer.name", optimizer.name, {"adamw", "sgd", "muon", "muonh"},
        "optimizer; muon and muonh step matrices by the keys of [muon] and leave the rest to AdamW");
  c.add("optimizer.learning_rate", optimizer.learning_rate, {0, 1e3, true, false}, "AdamW, SGD: peak learning rate");
  c.add("optimizer.beta1", optimizer.beta1, {0, 1, false, true}, "AdamW: decay of the mean");
  c.add("optimizer.beta2", optimizer.beta2, {0, 1, false, true}, "AdamW: decay of the mean square");
  c.add("optimizer.eps", optimizer.eps, {0, 1, true, false}, "AdamW: added to the root mean square");
  c.add("optimizer.momentum", optimizer.momentum, {0, 1, false, true}, "SGD: momentum");
  c.add("optimizer.weight_decay", optimizer.weight_decay, {0, 1e3, false, false}, "AdamW, SGD: decoupled decay");
  c.add("optimizer.decay", optimizer.decay, {"all", "matrices"},
        "what decays: every tensor, or not gains, biases and other vectors");
  c.add("optimizer.embedding_rate", optimizer.embedding_rate, factor, "factor of the embedding's rate");
  c.add("optimizer.head_rate", optimizer.head_rate, factor, "factor of the head's rate");
  c.add("optimizer.gain_rate", optimizer.gain_rate, factor, "factor of the rate of gains, biases and other vectors");
  c.add("optimizer.tied_rate_power", optimizer.tied_rate_power, {0, 10, false, false},
        "rates of a tied core are divided by model.loops to this power");
  declare_muon(c, optimizer.muon);
}

void validate_muon(const MuonConfig& muon) {
  if (muon.orthogonalise == "polar_express" && muon.ns_steps > 5)
    throw UsageError(fmt::format("muon.ns_steps = {}, but polar_express has coefficients for 5 steps", muon.ns_steps),
                     "--muon.ns_steps 5");
  if (muon.momentum_start < 0 && muon.momentum_start != -1)
    throw UsageError(fmt::format("muon.momentum_start = {} is no momentum", muon.momentum_start),
                     "use 0 to below 1, or -1 for muon.momentum");
}

}  // namespace

void TrainConfig::declare(Config& c) {
  const Limits ratio{0, 1, false, false}, interval{0, 1e12, false, false}, count{1, 1e12, false, false};
  c.add("run.directory", directory, "folder of the run: log, checkpoints, configuration");
  c.add("run.resume", resume, "go on from the newest complete checkpoint of run.directory");
  c.add("run.device", device, kDeviceNames, "where to compute");
  c.add("run.precision", precision, {"float32", "bfloat16"}, "how activations are stored; bfloat16 on a GPU only");
  c.add("run.checkpoint_interval", checkpoint_interval, interval, "steps between checkpoints; 0: only at the end");
  c.add("run.keep_checkpoints", keep_checkpoints, {1, 1e6, false, false}, "newest checkpoints that are kept");
  c.add("run.checkpoint_writer", checkpoint_writer, {"auto", "parallel", "one"},
        "who writes checkpoints: all ranks together, rank 0 alone, or (auto) together where it works");
  c.add("run.log_interval", log_interval, count, "steps between terminal lines");
  c.add("run.tensorboard", tensorboard, "also write event files for TensorBoard, to run.directory/tensorboard");
  c.add("statistics.interval", statistics_interval, interval,
        "steps between looks at what the loops choose and how the state moves (docs/run_log.md); 0: none");
  c.add("statistics.stride", step.statistics_stride, count,
        "a look compares the states of every so manieth token of a sequence; choices are counted over all");
  c.add("run.validation_interval", validation_interval, interval, "steps between validations; 0: only at the end");
  c.add("run.validation_samples", validation_samples, interval, "sequences of a validation during training; 0: all");
  c.add("run.stop_after", stop_after, interval, "stop with a checkpoint after this step; 0: train.steps");
  c.add("run.skip_limit", skip_limit, count, "skipped steps in a row that end the run");
  c.add("run.check_collectives", check_collectives,
        "compare every call between ranks before it is made, and name the first that differs; slow");
  c.add("run.collective_timeout", collective_timeout, {0, 1e9, false, false},
        "seconds after which a call between ranks that does not end ends the job; 0: never");
  c.add("run.summary", summary, "file for a JSON summary of the session; empty: none");
  c.add("data.store", store, "token store made by heddle data build");
  c.add("data.document_mask", document_mask, "tokens see their own document only, positions restart there");
  c.add("data.unique_tokens", unique_tokens, {0, 1e15, false, false},
        "train on so many tokens only, in as many epochs as train.steps wants; 0: the whole train part");
  model.declare(c);
  c.add("train.steps", steps, count, "optimizer batches of the whole run; the schedule's length");
  c.add("train.global_batch", global_batch, {1, 1e6, false, false}, "sequences per step over all ranks");
  c.add("train.micro_batch", micro_batch, {1, 1e6, false, false}, "sequences per rank and forward pass");
  c.add("train.sequence_length", sequence, {1, 1 << 20, false, false}, "tokens per sequence");
  c.add("backprop.mode", step.back_propagation.mode, kBackPropagationModes,
        "through all loops; the same, recomputing; through the last loops only; or in segments with a loss each");
  c.add("backprop.loops", step.back_propagation.loops, {0, 1024, false, false},
        "loops of a segment (segmented), between kept states (checkpointed), or with gradient (truncated)");
  c.add("backprop.step_per_segment", step.back_propagation.step_per_segment,
        "segmented: clip and update after every segment; false: once, with the sum of their gradients");
  c.add("loss.loop_weights", step.loop_weights, {0, 1e3, false, false},
        "weights of the losses after each loop, one per loop; empty: the last loop only");
  loop_schedule.declare(c);
  c.add("growth.rewarm_steps", schedule.rewarm_steps, interval,
        "steps of a second warm-up from 0 after growth; 0: none");
  c.add("train.seed", seed, {0, 9e15, false, false}, "seed of start values and data order");
  c.add("train.clip_norm", step.clip_norm, {0, 1e9, false, false}, "global gradient norm is clipped to this; 0: off");
  c.add("train.balance_rate", step.balance_rate, {0, 1, false, false}, "step of the balance bias; 0: off");
  c.add("train.spike_guard", step.spike_guard, "skip segments whose loss jumps (the release's rule)");
  declare_optimizer(c, optimizer);
  c.add("schedule.name", schedule.name, {"wsd", "cosine", "linear"},
        "after the warm-up: stable, then decay (wsd), or a cosine or a line down to schedule.min_ratio");
  c.add("schedule.warmup_ratio", schedule.warmup_ratio, ratio, "share of the steps that warm up");
  c.add("schedule.decay_ratio", schedule.decay_ratio, ratio,
        "wsd: share of the steps that decay; 1: all behind the warm-up");
  c.add("schedule.min_ratio", schedule.min_ratio, ratio, "last rate over peak rate");
  c.add("layout.expert_parallel", expert_parallel, {1, 65536, false, false}, "ranks over which the experts are split");
  c.add("layout.exchange_chunks", exchange_chunks, {1, 64, false, false},
        "parts in which a micro-batch travels to its experts: one travels while another is computed");
  c.add("layout.gradient_bucket", gradient_bucket, {0, 1e6, false, false},
        "MiB of complete gradients that ranks sum together while the backward pass goes on");
  c.add("layout.zero", optimizer.zero, "split optimizer state over the ranks that hold the same weights (ZeRO-1)");
  declare_conditions(c);
}

void TrainConfig::validate_schedule() {
  const BackPropagation& b = step.back_propagation;
  if (b.mode != BackPropagationMode::kFull && b.loops == 0)
    throw UsageError(fmt::format("backprop.mode = {} with backprop.loops = 0", kBackPropagationModes(b.mode)),
                     fmt::format("say of how many loops: --backprop.loops {}", std::min<int64_t>(3, model.loops)));
  if (b.mode == BackPropagationMode::kTruncated && model.lanes > 0)
    throw UsageError("hyper_connections.lanes with backprop.mode truncated", "use full or checkpointed");
  const auto weights = static_cast<int64_t>(step.loop_weights.size());
  if (weights > 0 && weights != model.loops)
    throw UsageError(fmt::format("loss.loop_weights has {} weights for model.loops = {}", weights, model.loops),
                     "give one for each loop");
  if (weights > 0 && b.mode == BackPropagationMode::kSegmented)
    throw UsageError("loss.loop_weights with backprop.mode segmented, where every segment has a loss of its own",
                     "use full, checkpointed or truncated");
  if (weights > 0 && std::count(step.loop_weights.begin(), step.loop_weights.end(), 0.0) == weights)
    throw UsageError("loss.loop_weights are all 0", "at least one loop needs a loss");
  if (weights > 0 && step.loop_weights.back() == 0)
    throw UsageError(fmt::format("loss.loop_weights = {} end in 0: the loops behind the last weight run for nothing",
                                 fmt::join(step.loop_weights, ",")),
                     "give the last loop a weight, or take fewer model.loops");
  if (weights > 0 && model.coda_layers > 0 && model.outer_moe())
    throw UsageError("loss.loop_weights with experts in the coda, which would route once per loss",
                     "set feed_forward.outer dense");
  model.gradient_loops = b.mode == BackPropagationMode::kTruncated ? b.loops : 0;
  // A decay_ratio of 1 is all that the warm-up leaves, as in published recipes.
  constexpr double kRounding = 1e-12;
  if (schedule.name == "wsd" && schedule.decay_ratio < 1 &&
      schedule.warmup_ratio + schedule.decay_ratio > 1 + kRounding)
    throw UsageError(fmt::format("schedule.warmup_ratio = {} and schedule.decay_ratio = {} are more than all steps",
                                 schedule.warmup_ratio, schedule.decay_ratio),
                     "make their sum 1 or less; schedule.decay_ratio 1 decays from the end of the warm-up on");
  loop_schedule.finish(model.loops, steps);
  schedule.growth_step = loop_schedule.growth_step;
  step.largest_loops = loops_of_steps().largest();
  step.reduction_bucket = gradient_bucket << 20;
  if (weights > 0 && (step.largest_loops != model.loops || loop_schedule.growth_initial_loops > 0 ||
                      loop_schedule.distribution != LoopDistribution::kFixed))
    throw UsageError("loss.loop_weights with a loop count that changes",
                     "use loop_count.distribution fixed and no growth");
}

FlopCount TrainConfig::mean_training_flops(const ModelConfig& complete) const {
  FlopCount mean;
  for (const auto& [loops, share] : loops_of_steps().shares(steps))
    mean.add(training_flops_per_token(complete, sequence, work_of(step.back_propagation, step.loop_weights, loops)),
             share);
  return mean;
}

CheckpointWriter TrainConfig::writer() const {
  if (checkpoint_writer == "parallel") return CheckpointWriter::kParallel;
  return checkpoint_writer == "one" ? CheckpointWriter::kOne : CheckpointWriter::kAuto;
}

void TrainConfig::validate() {
  if (directory.empty()) throw UsageError("run.directory is empty", "name a folder: --run.directory runs/first");
  if (store.empty()) throw UsageError("data.store is empty", "make one with heddle data build, then --data.store FILE");
  schedule.total_steps = steps;
  validate_muon(optimizer.muon);
  if (optimizer.name == "muonh" &&
      (model.initialisation == Initialisation::kExponents || model.conditioning == Conditioning::kModulation))
    throw UsageError("optimizer.name = muonh with matrices that start at zero, whose norm it would keep",
                     "use muon, another initialisation.kind, or conditioning.kind embedding");
  model.validate();
  check_countable(model);
  optimizer.loops = model.loops;
  const bool from_embedding = model.initial_state == InitialState::kEmbedding;
  const std::string& start = kInitialStates(model.initial_state);
  // A convex re-injection begins in the second loop.
  const bool convex = model.reinjection == Reinjection::kConvex;
  const char* never = model.reinjection == Reinjection::kNone             ? ""
                      : convex && model.loops == 1                        ? " and one loop"
                      : convex && model.reinjection_lambda == 0           ? " and reinjection.lambda = 0"
                      : convex && loop_schedule.growth_initial_loops == 1 ? " and growth.initial_loops = 1"
                                                                          : nullptr;
  if (!from_embedding && never != nullptr)
    throw UsageError(
        fmt::format("model.initial_state = {} with reinjection.kind = {}{}: the tokens never enter the loops", start,
                    kReinjections(model.reinjection), never),
        "use model.initial_state embedding, or another re-injection");
  if (!from_embedding && convex && loop_schedule.distribution == LoopDistribution::kUniform && loop_schedule.low == 1)
    throw UsageError(
        fmt::format("model.initial_state = {} with loop_count.low = 1: the tokens never enter the steps of "
                    "one loop, since a convex re-injection begins in the second",
                    start),
        "use model.initial_state embedding, or loop_count.low 2");
  if (model.reinjection == Reinjection::kBoundary && model.reinjection_first == FirstInjection::kAlphaE &&
      model.reinjection_alpha == 0 && !model.reinjection_alpha_learned)
    throw UsageError("reinjection.first = alpha_e with reinjection.alpha = 0: the tokens never enter the loops",
                     "use reinjection.first e, or another reinjection.alpha");
  if (!from_embedding && model.reinjection == Reinjection::kBoundary)
    throw UsageError(fmt::format("model.initial_state = {} with reinjection.kind = boundary, whose first loop starts "
                                 "from the embedding",
                                 start),
                     "use model.initial_state embedding");
  if (!model.any_moe() && expert_parallel > 1)
    throw UsageError(fmt::format("layout.expert_parallel = {} with a model without experts", expert_parallel), "use 1");
  validate_schedule();
}

}  // namespace heddle
