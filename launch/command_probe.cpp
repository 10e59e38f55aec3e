// heddle probe: what loops, blocks, experts and routers of a checkpoint are for (docs/probe.md).
#include <algorithm>
#include <filesystem>

#include "analysis/probe_report.h"
#include "device/device.h"
#include "launch/loaded_model.h"
#include "probe/probe.h"
#include "support/atomic_file.h"
#include "support/log.h"

namespace heddle {

namespace {

constexpr const char* kExample = "heddle probe runs/quickstart";

/// Takes "-o FILE" out of the arguments; empty: not there.
std::string take_output(Arguments& arguments) {
  const auto found = std::find(arguments.begin(), arguments.end(), "-o");
  if (found == arguments.end()) return "";
  if (found + 1 == arguments.end() || (found + 1)->empty()) throw UsageError("-o lacks its file", kExample);
  const std::string file = *(found + 1);
  arguments.erase(found, found + 2);
  return file;
}

/// RUN/probe.json, and beside a checkpoint that was named itself: FILE.probe.json.
std::string default_output(const std::string& where) {
  namespace fs = std::filesystem;
  return fs::is_directory(where) ? (fs::path(where) / "probe.json").string() : where + ".probe.json";
}

}  // namespace

int run_probe_command(Job& job, const Arguments& all) {
  std::string device = "auto", store_path;
  Part part = Part::kValidation;
  int64_t micro_batch = 0, sequence = 0, expert_parallel = 1;
  ProbeOptions options;
  Config config;
  config.add("device", device, kDeviceNames, "where to compute");
  config.add("layout.expert_parallel", expert_parallel, {1, 65536, false, false},
             "ranks over which the experts are split");
  config.add("probe.store", store_path, "token store; empty: the one the checkpoint was trained on");
  config.add("probe.part", part, Names<Part>{"train", "validation", "other"}, "part of the store");
  config.add("probe.documents", options.documents.documents, {1, 1e6, false, false},
             "documents at most, evenly spaced over the part");
  config.add("probe.sequence", sequence, {0, 1 << 24, false, false},
             "tokens of a document at most, from its start; 0: data.sequence of the training");
  config.add("probe.micro_batch", micro_batch, {0, 1e6, false, false},
             "documents per rank and pass; 0: train.micro_batch of the training");
  config.add("probe.experts", options.effects.experts, {0, 65536, false, false},
             "skip so many of the most loaded experts of each core layer, each alone; 0: none");
  config.add("probe.loops", options.effects.loops, {1, 4096, false, false},
             "other loop counts, comma separated; empty: from 1 to two more than the model's");
  config.add("probe.gradients", options.gradients, kGradientDetails,
             "norms: gradients by visit, alignment, cosines; kappa: read-back products too");
  Arguments arguments = all;
  if (asks_for_help(arguments)) {
    log_line("usage: heddle probe CHECKPOINT|RUN [-o FILE] [--section.key VALUE]...\n\n" + config.help());
    return static_cast<int>(ExitStatus::kOk);
  }
  std::string output = take_output(arguments);
  const Arguments where = config.parse(arguments);
  if (where.size() != 1) throw UsageError("probe takes one checkpoint or run folder", kExample);
  if (output.empty() && std::filesystem::exists(where[0])) output = default_output(where[0]);
  require_writable_target(output);

  const std::unique_ptr<OpenDevice> opened = open_device(job, device);
  LoadedModel loaded = open_model(job, where[0], static_cast<int>(expert_parallel), opened->kernels());
  const TokenStore store = TokenStore::open(store_path.empty() ? loaded.config.store : store_path);
  loaded.require_same_tokenizer(store);
  store.require_part(part);
  options.documents.sequence = sequence > 0 ? sequence : loaded.config.sequence;
  options.documents.micro_batch = micro_batch > 0 ? micro_batch : loaded.config.micro_batch;
  options.documents.seed = static_cast<uint64_t>(loaded.config.seed);
  options.back_propagation = loaded.config.step.back_propagation;
  options.on_part = [](const std::string& what) { log_line("probing: " + what); };
  std::vector<int64_t>& loops = options.effects.loops;
  std::sort(loops.begin(), loops.end());
  loops.erase(std::unique(loops.begin(), loops.end()), loops.end());

  ProbeResult result = probe(*loaded.model, store, part, options);
  result.checkpoint = loaded.path;
  result.step = loaded.info.step;
  log_line(render(result));
  if (job.world().rank() == 0) publish_text(output, probe_json(result));
  log_line("written to " + output);
  return static_cast<int>(ExitStatus::kOk);
}

}  // namespace heddle
