#include "launch/command_inspect.h"

#include <bit>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "analysis/run_log.h"
#include "data/token_store.h"
#include "support/atomic_file.h"
#include "support/config.h"
#include "support/error.h"
#include "support/log.h"
#include "support/text_table.h"
#include "train/checkpoint.h"
#include "train/checkpoint_tensors.h"

namespace heddle {

namespace {

/// What was found: lines for people, values for programs, and what is wrong.
struct Inspection {
  std::string text;
  nlohmann::json json;
  std::vector<std::string> damage;

  void line(const std::string& key, const nlohmann::json& value) {
    json[key] = value;
    text += fmt::format("  {:<24} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  }
};

std::string kind_of(const h5::File& file) {
  for (const char* name : {"kind", "format"})
    if (file.has_attribute("/", name)) return file.text_attribute("/", name);
  return "";
}

void inspect_checkpoint(const std::string& path, bool check, Inspection& out) {
  const CheckpointInfo info = read_checkpoint_info(path);
  const h5::File file(path, h5::File::Mode::kRead);
  out.line("step", info.step);
  out.line("tokenizer", fmt::format("{} {}", info.tokenizer_kind, info.tokenizer_fingerprint));
  out.line("data_hash", info.data_hash);
  const bool published = checkpoint_is_complete(path);
  out.line("complete", published);
  TextTable table(
      {{"tensor", TextTable::Align::kLeft}, {"shape", TextTable::Align::kLeft}, {"elements"}, {"checksum"}});
  nlohmann::json tensors = nlohmann::json::array();
  int64_t parameters = 0;
  for (const std::string& dataset : checkpoint_tensors(path)) {
    if (!file.exists(dataset)) {
      out.damage.push_back(dataset + " is missing");
      continue;
    }
    const h5::Extent shape = file.extent(dataset);
    const std::string sum =
        fmt::format("{:016x}", std::bit_cast<uint64_t>(file.integer_attribute(dataset, kChecksumAttribute)));
    const auto elements = static_cast<int64_t>(h5::element_count(shape));
    if (dataset.starts_with("/model/")) parameters += elements;
    table.add_row({dataset, fmt::format("[{}]", fmt::join(shape, ", ")), fmt::format("{}", elements), sum});
    tensors.push_back({{"name", dataset}, {"shape", shape}, {"checksum", sum}});
  }
  out.line("elements of /model", parameters);
  out.line("file bytes", static_cast<int64_t>(std::filesystem::file_size(path)));
  out.text += table.render();
  out.json["tensors"] = tensors;
  out.json["config"] = info.config;
  if (!published)
    out.damage.push_back("there is no marker of its size beside it: it was not published, cut off, or copied alone");
  if (!check) return;
  for (std::string& problem : check_checkpoint(path)) out.damage.push_back(std::move(problem));
}

void inspect_store(const std::string& path, bool check, Inspection& out) {
  const TokenStore store = TokenStore::open(path);
  out.line("vocabulary", store.vocabulary_size());
  out.line("bytes per id", store.token_width());
  out.line("tokenizer", fmt::format("{} {}", store.tokenizer_kind(), store.tokenizer_fingerprint()));
  out.line("content_hash", store.content_hash());
  for (const Part part : kAllParts) {
    if (!store.has(part)) continue;
    out.line(fmt::format("{} tokens", part_name(part)), store.tokens(part));
    out.line(fmt::format("{} documents", part_name(part)), store.documents(part));
    out.line(fmt::format("{} text bytes", part_name(part)), store.text_bytes(part));
  }
  if (!check) return;
  try {
    TokenStore::open(path, true);
  } catch (const Error& error) {
    out.damage.push_back(error.what());
  }
}

/// In every visit of a step as many slots were kept or dropped as in every other.
void check_slots(const RunLogHeader& h, const StepRecord& record, std::vector<std::string>& damage) {
  if (h.experts == 0) return;
  int64_t expected = -1;
  for (int64_t visit = 0; visit < h.loops * h.layers; ++visit) {
    int64_t slots = record.dropped[static_cast<size_t>(visit)];
    for (int64_t e = 0; e < h.experts; ++e) slots += record.load[static_cast<size_t>(visit * h.experts + e)];
    if (expected >= 0 && slots != expected && record.skipped[0] == 0 && slots != 0) {
      damage.push_back(fmt::format("step {}: {} slots in loop {} layer {}, {} elsewhere", record.step, slots,
                                   visit / h.layers + 1, visit % h.layers, expected));
      return;
    }
    if (slots != 0) expected = slots;
  }
}

void inspect_log(const std::string& path, bool check, Inspection& out) {
  const RunLog log = RunLog::open(path);
  const RunLogHeader& h = log.header;
  out.line("planned steps", h.steps);
  out.line("logged steps", static_cast<int64_t>(log.steps.size()));
  out.line("validations", static_cast<int64_t>(log.validations.size()));
  out.line("loops", h.loops);
  out.line("layers", h.layers);
  out.line("experts", h.experts);
  out.line("segments", h.segments);
  out.line("ranks", h.ranks);
  out.line("expert_parallel", h.expert_parallel);
  if (!log.steps.empty()) {
    out.line("first step", log.steps.front().step);
    out.line("last step", log.steps.back().step);
    out.line("last loss", log.steps.back().loss);
  }
  out.json["config"] = h.config;
  if (!check) return;
  for (size_t i = 0; i < log.steps.size(); ++i) {
    if (log.steps[i].step != log.steps[0].step + static_cast<int64_t>(i)) {
      out.damage.push_back(fmt::format("row {} is step {}, expected {}", i, log.steps[i].step,
                                       log.steps[0].step + static_cast<int64_t>(i)));
      return;
    }
    check_slots(h, log.steps[i], out.damage);
  }
}

/// "--check" alone means "--check".
std::vector<std::string> with_flag_values(std::vector<std::string> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool has_value = i + 1 < arguments.size() && (arguments[i + 1] == "true" || arguments[i + 1] == "false");
    if (arguments[i] == "--check" && !has_value) arguments[i] = "--check=true";
  }
  return arguments;
}

}  // namespace

int run_inspect_command(const std::vector<std::string>& arguments) {
  bool check = false;
  std::string json;
  Config config;
  config.add("check", check, "read everything and compare hashes and checksums; status 3 if something is damaged");
  config.add("json", json, "file for the findings as JSON");
  if (asks_for_help(arguments)) {
    log_line("usage: heddle inspect FILE [--check] [--json FILE]\n\n" + config.help());
    return static_cast<int>(ExitStatus::kOk);
  }
  const std::vector<std::string> where = config.parse(with_flag_values(arguments));
  require_writable_target(json);
  if (where.size() != 1)
    throw UsageError("inspect takes one token store, checkpoint or run log",
                     "heddle inspect runs/quickstart/log.h5 --check");
  const std::string& path = where[0];
  Inspection out;
  std::string kind;
  {
    const h5::File file(path, h5::File::Mode::kReadSwmr);
    kind = kind_of(file);
  }
  out.json = {{"file", path}, {"kind", kind}};
  out.text = fmt::format("{}: {}\n", path, kind.empty() ? "an HDF5 file of another program" : kind);
  if (kind == "heddle checkpoint") {
    try {
      inspect_checkpoint(path, check, out);
    } catch (const Error& error) {
      out.damage.push_back(error.what());
    }
  } else if (kind == "heddle tokens")
    inspect_store(path, check, out);
  else if (kind == "heddle run log")
    inspect_log(path, check, out);
  else
    throw Error(fmt::format("'{}' is an HDF5 file, but none that Heddle wrote", path),
                "heddle inspect reads token stores, checkpoints and run logs");
  for (const std::string& problem : out.damage) out.text += "  damaged: " + problem + "\n";
  if (out.damage.empty() && check) out.text += "  everything was read, and is whole\n";
  out.json["damage"] = out.damage;
  out.json["checked"] = check;
  log_line(out.text);
  if (!json.empty()) publish_text(json, out.json.dump(2) + "\n");
  return static_cast<int>(out.damage.empty() ? ExitStatus::kOk : ExitStatus::kMismatch);
}

}  // namespace heddle
