// heddle eval: loss of a checkpoint at one or many loop counts.
#include <nlohmann/json.hpp>

#include "device/device.h"
#include "launch/loaded_model.h"
#include "support/atomic_file.h"
#include "support/log.h"
#include "train/evaluation.h"

namespace heddle {

namespace {

Part part_of(const std::string& name) {
  for (const Part part : kAllParts)
    if (name == part_name(part)) return part;
  return Part::kValidation;
}

}  // namespace

int run_eval_command(Job& job, const Arguments& arguments) {
  std::string device = "auto", store_path, part = "validation", rule = "trained", json;
  std::vector<int64_t> loops;
  int64_t samples = 0, micro_batch = 0, expert_parallel = 1;
  Config config;
  config.add("device", device, kDeviceNames, "where to compute");
  config.add("json", json, "file for the results as JSON");
  config.add("layout.expert_parallel", expert_parallel, {1, 65536, false, false},
             "ranks over which the experts are split");
  config.add("eval.store", store_path, "token store; empty: the one the checkpoint was trained on");
  config.add("eval.part", part, {"train", "validation", "other"}, "part of the store");
  config.add("eval.loops", loops, {1, 4096, false, false},
             "loop counts, comma separated; empty: model.loops, and before growth growth.initial_loops");
  config.add("eval.depth_rule", rule, {"trained", "rescaled"},
             "constants of model.loops (fewer loops is early exit), or of the count that is run");
  config.add("eval.samples", samples, {0, 1e12, false, false}, "sequences from the start of the part; 0: all");
  config.add("eval.micro_batch", micro_batch, {0, 1e6, false, false}, "sequences per rank and pass; 0: as in training");
  if (asks_for_help(arguments)) {
    log_line("usage: heddle eval CHECKPOINT|RUN [--section.key VALUE]...\n\n" + config.help());
    return static_cast<int>(ExitStatus::kOk);
  }
  const Arguments where = config.parse(arguments);
  require_writable_target(json);
  if (where.size() != 1) throw UsageError("eval takes one checkpoint or run folder", "heddle eval runs/quickstart");
  const std::unique_ptr<OpenDevice> opened = open_device(job, device);
  LoadedModel loaded = open_model(job, where[0], static_cast<int>(expert_parallel), opened->kernels());
  const TokenStore store = TokenStore::open(store_path.empty() ? loaded.config.store : store_path);
  loaded.require_same_tokenizer(store);
  EvaluationOptions options;
  options.loops = loops;
  options.rule = rule == "rescaled" ? DepthRule::kRescaled : DepthRule::kTrained;
  options.sequence = loaded.config.sequence;
  options.micro_batch = micro_batch > 0 ? micro_batch : loaded.config.micro_batch;
  options.samples = samples;
  options.document_mask = loaded.config.document_mask;
  options.seed = static_cast<uint64_t>(loaded.config.seed);
  store.require_part(part_of(part));
  const std::vector<EvaluationResult> results = evaluate(*loaded.model, store, part_of(part), options);
  const std::map<int64_t, double> counts = loaded.config.loops_of_steps().shares(loaded.info.step);
  log_line(fmt::format("{} on the {} part of {} (trained with {}, depth rule {})", loaded.path, part, store.path(),
                       loop_counts_text(counts), rule));
  nlohmann::json rows = nlohmann::json::array();
  for (const EvaluationResult& r : results) {
    const bool beyond = r.loops > loaded.model->active_loops();
    log_line(fmt::format("  {:>3} loops  loss {:.6f}  {:.6f} bits per byte  {} tokens{}", r.loops, r.nats_per_token,
                         r.bits_per_byte, r.targets,
                         beyond ? "  (beyond the loops trained so far: what belongs to the last of them serves)" : ""));
    rows.push_back(
        {{"loops", r.loops}, {"loss", r.nats_per_token}, {"bits_per_byte", r.bits_per_byte}, {"tokens", r.targets}});
  }
  if (!json.empty() && job.world().rank() == 0)
    publish_text(
        json,
        nlohmann::json{{"checkpoint", loaded.path}, {"part", part}, {"depth_rule", rule}, {"results", rows}}.dump(2) +
            "\n");
  return static_cast<int>(ExitStatus::kOk);
}

}  // namespace heddle
