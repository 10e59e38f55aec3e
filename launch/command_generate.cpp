// heddle generate: text from a checkpoint.
#include <omp.h>

#include <cstdlib>

#include "data/text_repair.h"
#include "data/tokenizer.h"
#include "device/device.h"
#include "launch/loaded_model.h"
#include "model/counting.h"
#include "support/log.h"
#include "train/generation.h"

namespace heddle {

namespace {
/// Parameters per token and layer visit from which several threads pay for one token.
constexpr int64_t kSharedParameters = 30'000'000;
}  // namespace

int run_generate_command(Job& job, const Arguments& arguments) {
  std::string device = "auto", prompt;
  GenerationOptions options;
  int64_t seed = 1, expert_parallel = 1;
  Config config;
  config.add("device", device, kDeviceNames, "where to compute");
  config.add("prompt", prompt, "text to go on from; empty: the start of a document");
  config.add("loops", options.loops, {0, 4096, false, false},
             "visits of the core; 0: model.loops, and before growth growth.initial_loops");
  config.add("tokens", options.tokens, {1, 1e6, false, false}, "new tokens at most");
  config.add("temperature", options.temperature, {0, 100, false, false}, "0: always the likeliest token");
  config.add("top_k", options.top_k, {0, 1e6, false, false}, "draw among so many likeliest tokens; 0: all");
  config.add_condition({"top_k"}, "temperature above 0", [&options] { return options.temperature > 0; });
  config.add("seed", seed, {0, 9e15, false, false}, "seed of the draws");
  config.add("layout.expert_parallel", expert_parallel, {1, 65536, false, false},
             "ranks over which the experts are split");
  if (asks_for_help(arguments)) {
    log_line("usage: heddle generate CHECKPOINT|RUN [--prompt TEXT] [--key VALUE]...\n\n" + config.help());
    return static_cast<int>(ExitStatus::kOk);
  }
  const Arguments where = config.parse(arguments);
  if (where.size() != 1)
    throw UsageError("generate takes one checkpoint or run folder", "heddle generate runs/quickstart");
  const std::unique_ptr<OpenDevice> opened = open_device(job, device);
  LoadedModel loaded = open_model(job, where[0], static_cast<int>(expert_parallel), opened->kernels());
  if (loaded.info.tokenizer.empty()) throw Error(fmt::format("'{}' holds no tokenizer", loaded.path));
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(loaded.info.tokenizer, loaded.path);
  // One token at a time: the products of a small model are too short to share, and threads that wait for each other
  // on a busy machine cost far more than they save.
  if (std::getenv("OMP_NUM_THREADS") == nullptr && count_parameters(loaded.model->config()).active < kSharedParameters)
    omp_set_num_threads(1);
  options.seed = static_cast<uint64_t>(seed);
  options.context = loaded.config.sequence;
  options.stop_token = tokenizer->end_of_document();
  std::vector<int64_t> ids;
  for (const uint32_t id : tokenizer->encode(prompt)) ids.push_back(id);
  if (ids.empty()) {
    if (loaded.config.document_mask)
      throw UsageError(
          "an empty prompt: this model was trained with data.document_mask and never saw what follows an end mark",
          "give the first words: --prompt \"It was\"");
    ids.push_back(options.stop_token);
  }
  const std::vector<int64_t> drawn = generate(*loaded.model, ids, options);
  std::vector<uint32_t> text;
  for (const int64_t id : drawn)
    if (id < tokenizer->vocabulary_size()) text.push_back(static_cast<uint32_t>(id));
  // Tokens may be single bytes, and so end inside a character or make none.
  std::string shown = prompt + tokenizer->decode(text);
  drop_unfinished_character(shown);
  replace_broken_utf8(shown);
  log_line(shown);
  return static_cast<int>(ExitStatus::kOk);
}

}  // namespace heddle
