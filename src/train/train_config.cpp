#include "train/train_config.h"

namespace heddle {

void TrainConfig::declare(Config& c) {
  const Limits ratio{0, 1, false, false}, interval{0, 1e12, false, false}, count{1, 1e12, false, false};
  c.add("run.directory", directory, "folder of the run: log, checkpoints, configuration");
  c.add("run.resume", resume, "go on from the newest complete checkpoint of run.directory");
  c.add("run.device", device, {"auto", "cpu", "ref"}, "where to compute");
  c.add("run.checkpoint_interval", checkpoint_interval, interval, "steps between checkpoints; 0: only at the end");
  c.add("run.keep_checkpoints", keep_checkpoints, {1, 1e6, false, false}, "newest checkpoints that are kept");
  c.add("run.checkpoint_writer", checkpoint_writer, {"auto", "parallel", "one"},
        "who writes checkpoints: all ranks together, rank 0 alone, or (auto) together where it works");
  c.add("run.log_interval", log_interval, count, "steps between terminal lines");
  c.add("run.validation_interval", validation_interval, interval, "steps between validations; 0: only at the end");
  c.add("run.validation_samples", validation_samples, interval, "sequences of a validation during training; 0: all");
  c.add("run.stop_after", stop_after, interval, "stop with a checkpoint after this step; 0: train.steps");
  c.add("run.skip_limit", skip_limit, count, "skipped steps in a row that end the run");
  c.add("run.check_collectives", check_collectives,
        "compare every call between ranks before it is made, and name the first that differs; slow");
  c.add("run.summary", summary, "file for a JSON summary of the session; empty: none");
  c.add("data.store", store, "token store made by heddle data build");
  c.add("data.document_mask", document_mask, "tokens see their own document only, positions restart there");
  model.declare(c);
  c.add("train.steps", steps, count, "optimizer batches of the whole run; the schedule's length");
  c.add("train.global_batch", global_batch, {1, 1e6, false, false}, "sequences per step over all ranks");
  c.add("train.micro_batch", micro_batch, {1, 1e6, false, false}, "sequences per rank and forward pass");
  c.add("train.sequence_length", sequence, {1, 1 << 20, false, false}, "tokens per sequence");
  c.add("train.segment_loops", step.segment_loops, {0, 1024, false, false},
        "loops per back-propagation segment, each with its own loss and update; 0: one segment");
  c.add("train.seed", seed, {0, 9e15, false, false}, "seed of start values and data order");
  c.add("train.clip_norm", step.clip_norm, {0, 1e9, false, false}, "global gradient norm is clipped to this; 0: off");
  c.add("train.balance_rate", step.balance_rate, {0, 1, false, false}, "step of the balance bias; 0: off");
  c.add("train.spike_guard", step.spike_guard, "skip segments whose loss jumps (the release's rule)");
  c.add("optimizer.name", optimizer.name, {"adamw", "sgd"}, "optimizer");
  c.add("optimizer.learning_rate", learning_rate, {0, 1e3, true, false}, "peak learning rate");
  c.add("optimizer.beta1", optimizer.beta1, {0, 1, false, true}, "AdamW: decay of the mean");
  c.add("optimizer.beta2", optimizer.beta2, {0, 1, false, true}, "AdamW: decay of the mean square");
  c.add("optimizer.eps", optimizer.eps, {0, 1, true, false}, "AdamW: added to the root mean square");
  c.add("optimizer.momentum", optimizer.momentum, {0, 1, false, true}, "SGD: momentum");
  c.add("optimizer.weight_decay", optimizer.weight_decay, {0, 1e3, false, false}, "decoupled decay, on every tensor");
  c.add("schedule.warmup_ratio", schedule.warmup_ratio, ratio, "share of the steps that warm up");
  c.add("schedule.decay_ratio", schedule.decay_ratio, ratio, "share of the steps that decay");
  c.add("schedule.min_ratio", schedule.min_ratio, ratio, "last rate over peak rate");
  c.add("layout.expert_parallel", expert_parallel, {1, 65536, false, false}, "ranks over which the experts are split");
  c.add("layout.zero", optimizer.zero, "split optimizer state over the ranks that hold the same weights (ZeRO-1)");
}

CheckpointWriter TrainConfig::writer() const {
  if (checkpoint_writer == "parallel") return CheckpointWriter::kParallel;
  return checkpoint_writer == "one" ? CheckpointWriter::kOne : CheckpointWriter::kAuto;
}

void TrainConfig::validate() {
  if (directory.empty()) throw UsageError("run.directory is empty", "name a folder: --run.directory runs/first");
  if (store.empty()) throw UsageError("data.store is empty", "make one with heddle data build, then --data.store FILE");
  schedule.total_steps = steps;
  model.validate();
}

}  // namespace heddle
