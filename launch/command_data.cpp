#include "launch/command_data.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "data/baselines.h"
#include "data/importers/classics.h"
#include "data/store_builder.h"
#include "support/atomic_file.h"
#include "support/config.h"
#include "support/error.h"
#include "support/log.h"

namespace heddle {

namespace {

constexpr const char* kUsage =
    "heddle data build INPUT... -o STORE [--validation PATH]... [--other PATH]... [--force] [--data.KEY VALUE]...\n"
    "    Reads .txt and .jsonl files (and folders of them), trains a tokenizer and writes a token store.\n"
    "heddle data show STORE [--verify]\n"
    "    Counts of the store and its first tokens; --verify reads every token.\n"
    "heddle data baselines STORE [--json FILE]\n"
    "    Bits per byte of bigram models and xz on the held-out text.\n"
    "heddle data classics ROOT -o FOLDER\n"
    "    Books out of the packages that launch/fetch_corpus.sh unpacked, as train, validation and other-author text.\n";

using Arguments = std::vector<std::string>;

/// Removes every "name VALUE" and "name=VALUE"; returns the values.
Arguments take_values(Arguments& arguments, const std::string& name) {
  Arguments values;
  for (size_t i = 0; i < arguments.size();) {
    const bool joined = arguments[i].starts_with(name + "=");
    if (!joined && arguments[i] != name) {
      ++i;
      continue;
    }
    if (!joined && i + 1 == arguments.size()) throw UsageError(fmt::format("{} lacks its value", name), kUsage);
    values.push_back(joined ? arguments[i].substr(name.size() + 1) : arguments[i + 1]);
    const auto at = arguments.begin() + static_cast<std::ptrdiff_t>(i);
    arguments.erase(at, at + (joined ? 1 : 2));
  }
  return values;
}

std::optional<std::string> take_value(Arguments& arguments, const std::string& name) {
  const Arguments values = take_values(arguments, name);
  if (values.size() > 1) throw UsageError(fmt::format("{} is given {} times", name, values.size()), kUsage);
  return values.empty() ? std::nullopt : std::optional(values[0]);
}

std::string take_output(Arguments& arguments, const char* what) {
  const auto output = take_value(arguments, "-o");
  if (!output.has_value() || output->empty()) throw UsageError(fmt::format("-o {} is missing", what), kUsage);
  return *output;
}

bool take_flag(Arguments& arguments, const std::string& name) {
  return std::erase(arguments, name) > 0;
}

/// The one positional argument that is left.
std::string only_argument(const Arguments& arguments, const char* what) {
  if (arguments.size() != 1)
    throw UsageError(
        fmt::format("expected one {}, found {} arguments: {}", what, arguments.size(), fmt::join(arguments, " ")),
        kUsage);
  return arguments[0];
}

/// BuildOptions whose keys are text until the configuration is read.
struct BuildSettings {
  BuildOptions options;
  std::string split = "file";
  std::string invalid_utf8 = "replace";

  void declare(Config& config) {
    config.add("data.tokenizer", options.tokenizer, {"bytes", "sentencepiece"}, "kind of tokenizer");
    config.add("data.tokenizer_from", options.tokenizer_from,
               "token store whose tokenizer is used instead of a new one");
    config.add("data.vocabulary_size", options.sentencepiece.vocabulary_size, {.low = 259, .high = 1'000'000},
               "ids of the sentencepiece tokenizer");
    config.add("data.tokenizer_training_bytes", options.sentencepiece.training_bytes, {.low = 1000, .high = 1e9},
               "bytes of text that train the tokenizer, spread over the corpus");
    config.add("data.split", split, {"file", "blank_lines", "chapters"}, "what one document of a .txt file is");
    config.add("data.invalid_utf8", invalid_utf8, {"replace", "refuse"}, "what to do with broken UTF-8");
    config.add("data.validation_fraction", options.validation_fraction, {.low = 0, .high = 1, .high_open = true},
               "share of the documents that is held out when --validation is not given");
    config.add("data.seed", options.seed, {.low = 0, .high = 1e15}, "seed of the choice of held-out documents");
    config.add_condition({"data.tokenizer", "data.vocabulary_size", "data.tokenizer_training_bytes"},
                         "an empty data.tokenizer_from", [this] { return options.tokenizer_from.empty(); });
    config.add_condition({"data.vocabulary_size", "data.tokenizer_training_bytes"}, "data.tokenizer sentencepiece",
                         [this] { return options.tokenizer == "sentencepiece"; });
    config.add_condition({"data.validation_fraction", "data.seed"}, "held-out text from the inputs (no --validation)",
                         [this] { return options.validation.empty(); });
    config.add_condition({"data.seed"}, "data.validation_fraction above 0",
                         [this] { return options.validation_fraction > 0; });
  }
  void finish() { options.documents = {parse_split(split), parse_invalid_utf8(invalid_utf8)}; }
};

void print_parts(const TokenStore& store) {
  log_line(fmt::format("{:<12}{:>12}{:>14}{:>14}{:>14}{:>12}", "part", "documents", "tokens", "text bytes",
                       "bytes/token", "end marks"));
  for (const Part part : kAllParts) {
    if (!store.has(part)) continue;
    const auto tokens = static_cast<double>(store.tokens(part));
    log_line(fmt::format("{:<12}{:>12}{:>14}{:>14}{:>14.3f}{:>11.3f}%", part_name(part), store.documents(part),
                         store.tokens(part), store.text_bytes(part),
                         static_cast<double>(store.text_bytes(part)) / tokens,
                         100.0 * static_cast<double>(store.documents(part)) / tokens));
  }
}

int build(Arguments arguments) {
  const std::string output = take_output(arguments, "STORE");
  BuildSettings settings;
  settings.options.validation = take_values(arguments, "--validation");
  settings.options.other = take_values(arguments, "--other");
  const bool force = take_flag(arguments, "--force");
  Config config;
  settings.declare(config);
  settings.options.inputs = config.parse(arguments);
  settings.finish();
  const BuildOptions& options = settings.options;
  if (options.inputs.empty()) throw UsageError("no input text is given", kUsage);

  if (std::filesystem::exists(output) && !force) {
    if (TokenStore::open(output).build_key() == build_key(options)) {
      log_line(fmt::format("'{}' is up to date: same inputs and settings", output));
      return 0;
    }
    throw Error(fmt::format("'{}' exists and was built from other inputs or settings", output),
                "give another -o, or --force to replace it");
  }
  const auto folder = std::filesystem::path(output).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder);
  const BuildReport report = build_token_store(options, output);
  const TokenStore store = TokenStore::open(output, true);
  log_line(fmt::format("documents: {} kept, {} blank dropped; {} broken UTF-8 sequences replaced",
                       report.kept_documents, report.blank_documents, report.invalid_sequences));
  if (report.moved_validation > 0)
    log_line(fmt::format("validation: {} documents held out by data.validation_fraction", report.moved_validation));
  print_parts(store);
  log_line(fmt::format("tokenizer: {}, {} ids, fingerprint {}", store.tokenizer_kind(), store.vocabulary_size(),
                       store.tokenizer_fingerprint()));
  log_line(fmt::format("seconds: read {:.2f}, tokenizer {:.2f}, encode {:.2f} ({:.1f} MB/s), write {:.2f}",
                       report.read_seconds, report.train_seconds, report.encode_seconds,
                       static_cast<double>(report.encoded_bytes) / 1e6 / std::max(report.encode_seconds, 1e-9),
                       report.write_seconds));
  if (!store.has(Part::kValidation))
    log_warning(
        "the store has no validation part: give --validation PATH or --data.validation_fraction to measure held-out "
        "loss");
  log_line(fmt::format("wrote '{}'", output));
  return 0;
}

int show(Arguments arguments) {
  const bool verify = take_flag(arguments, "--verify");
  const TokenStore store = TokenStore::open(only_argument(arguments, "token store"), verify);
  print_parts(store);
  log_line(fmt::format("tokenizer: {}, {} ids of {} bytes, end mark {}, fingerprint {}", store.tokenizer_kind(),
                       store.vocabulary_size(), store.token_width(), store.end_of_document(),
                       store.tokenizer_fingerprint()));
  log_line(fmt::format("content hash: {}{}", store.content_hash(), verify ? " (verified)" : ""));
  for (const Part part : kAllParts) {
    if (!store.has(part)) continue;
    uint32_t largest = 0;
    for (int64_t i = 0; i < store.tokens(part); ++i) largest = std::max(largest, store.token(part, i));
    log_line(fmt::format("largest id in {}: {}", part_name(part), largest));
  }
  const auto first = store.read_tokens(Part::kTrain, 0, std::min<int64_t>(64, store.tokens(Part::kTrain)));
  log_line(fmt::format(
      "first {} train tokens: {}", first.size(),
      nlohmann::json(store.tokenizer()->decode(first)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  return 0;
}

int baselines(Arguments arguments) {
  const auto file = take_value(arguments, "--json");
  require_writable_target(file.value_or(""));
  const TokenStore store = TokenStore::open(only_argument(arguments, "token store"));
  nlohmann::json json = {{"store", store.path()}, {"content_hash", store.content_hash()}};
  const std::vector<Baselines> results = measure_baselines(store);
  log_line("bits per byte of held-out text:");
  log_line(fmt::format("{:<12}{:>14}{:>14}{:>14}{:>14}{:>14}", "part", "text bytes", "token bigram", "byte bigram",
                       "xz alone", "xz primed"));
  for (const Baselines& result : results) {
    log_line(fmt::format("{:<12}{:>14}{:>14.4f}{:>14.4f}{:>14.4f}{:>14.4f}", part_name(result.part), result.text_bytes,
                         result.token_bigram, result.byte_bigram, result.xz, result.xz_primed));
    json[part_name(result.part)] = {{"text_bytes", result.text_bytes},
                                    {"token_bigram", result.token_bigram},
                                    {"byte_bigram", result.byte_bigram},
                                    {"xz", result.xz},
                                    {"xz_primed", result.xz_primed}};
  }
  if (file.has_value()) publish_text(*file, json.dump(1) + "\n");
  return 0;
}

int classics(Arguments arguments) {
  const std::string output = take_output(arguments, "FOLDER");
  const ClassicReport report = import_classics(only_argument(arguments, "folder of unpacked packages"), output);
  log_line(fmt::format("{:<38}{:<12}{:>10}{:>10}  {}", "book", "part", "bytes", "chapters", "xxh3-128 of the text"));
  int64_t bytes = 0;
  for (const auto& book : report.books) {
    log_line(fmt::format("{:<38}{:<12}{:>10}{:>10}  {}{}", book.source, part_name(book.part), book.bytes, book.chapters,
                         book.hash, book.expected ? "" : " (differs)"));
    bytes += book.bytes;
  }
  log_line(fmt::format("wrote {} bytes of {} books to '{}'", bytes, report.books.size(), output));
  return 0;
}

}  // namespace

int run_data_command(std::vector<std::string> arguments) {
  const bool help = take_flag(arguments, "--help") || take_flag(arguments, "-h");
  if (help || arguments.empty()) {
    if (!help) throw UsageError("heddle data: no command is given", kUsage);
    Config config;
    BuildSettings settings;
    settings.declare(config);
    log_line(std::string(kUsage) + "\n" + config.help());
    return 0;
  }
  const std::string command = arguments.front();
  arguments.erase(arguments.begin());
  if (command == "build") return build(std::move(arguments));
  if (command == "show") return show(std::move(arguments));
  if (command == "baselines") return baselines(std::move(arguments));
  if (command == "classics") return classics(std::move(arguments));
  throw UsageError(fmt::format("heddle data: there is no command '{}'", command), kUsage);
}

}  // namespace heddle
