#include "data/store_builder.h"

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/error.h"
#include "support/hash.h"

namespace heddle {

namespace {

/// Seconds since the last call.
class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - start_).count();
    start_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

nlohmann::json describe(const DocumentSet& set, Part part) {
  auto files = nlohmann::json::array();
  for (const InputFile& file : set.files)
    files.push_back({{"part", part_name(part)},
                     {"path", file.path},
                     {"bytes", file.bytes},
                     {"xxh3_128", file.hash},
                     {"documents", file.documents},
                     {"blank_documents", file.blank_documents},
                     {"invalid_sequences", file.invalid_sequences}});
  return files;
}

std::unique_ptr<Tokenizer> make_tokenizer(const BuildOptions& options, const std::vector<Document>& documents) {
  if (!options.tokenizer_from.empty()) return TokenStore::open(options.tokenizer_from).tokenizer();
  if (options.tokenizer == "bytes") return make_byte_tokenizer();
  if (options.tokenizer != "sentencepiece")
    throw UsageError(fmt::format("tokenizer '{}': expected bytes or sentencepiece", options.tokenizer));
  std::vector<std::string_view> texts;
  for (const Document& document : documents) texts.emplace_back(document.text);
  return train_sentencepiece(texts, options.sentencepiece);
}

/// Moves the chosen documents from `train` to `validation`.
void split_documents(const BuildOptions& options, std::vector<Document>& train, std::vector<Document>& validation) {
  std::vector<Document> kept;
  for (Document& document : train)
    (is_validation_document(document.text, options.validation_fraction, options.seed) ? validation : kept)
        .push_back(std::move(document));
  train = std::move(kept);
  if (train.empty() || validation.empty())
    throw Error(
        fmt::format("validation fraction {} leaves {} train and {} validation documents", options.validation_fraction,
                    train.size(), validation.size()),
        "give validation text with --validation PATH, cut files into more documents with --data.split, or change "
        "--data.validation_fraction or --data.seed");
}

std::string hash_of_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw Error(fmt::format("cannot read '{}'", path), "check that it may be read");
  StreamHash hash;
  std::vector<char> block(1 << 20);
  while (stream.read(block.data(), static_cast<std::streamsize>(block.size())), stream.gcount() > 0)
    hash.update(block.data(), static_cast<size_t>(stream.gcount()));
  return hash.hex();
}

void encode_part(const std::vector<Document>& documents, const Tokenizer& tokenizer, PartContent& part) {
  for (const Document& document : documents) part.add(tokenizer, document.text);
}

}  // namespace

std::string build_key(const BuildOptions& options) {
  StreamHash hash;
  const auto add = [&](const std::string& text) {
    const std::string framed = fmt::format("{}:{}", text.size(), text);
    hash.update(framed.data(), framed.size());
  };
  add(fmt::format("store {}", TokenStore::kVersion));
  add(options.tokenizer_from.empty() ? options.tokenizer
                                     : TokenStore::open(options.tokenizer_from).tokenizer_fingerprint());
  if (options.tokenizer_from.empty() && options.tokenizer == "sentencepiece")
    add(fmt::format("{} {}", options.sentencepiece.vocabulary_size, options.sentencepiece.training_bytes));
  add(fmt::format("{} {} {} {}", static_cast<int>(options.documents.split),
                  static_cast<int>(options.documents.invalid_utf8),
                  options.validation.empty() ? options.validation_fraction : 0.0, options.seed));
  for (const auto* paths : {&options.inputs, &options.validation, &options.other}) {
    add("part");
    for (const std::string& path : list_input_files(*paths)) {
      add(path);
      add(hash_of_file(path));
    }
  }
  return hash.hex();
}

bool is_validation_document(const std::string& text, double fraction, int64_t seed) {
  const uint64_t hash = hash64(fmt::format("{}:", seed) + text);
  return static_cast<double>(hash >> 11) * 0x1.0p-53 < fraction;
}

BuildReport build_token_store(const BuildOptions& options, const std::string& path) {
  BuildReport report;
  Stopwatch watch;
  StoreContent content;
  content.build_key = build_key(options);
  auto files = nlohmann::json::array();
  std::array<std::vector<Document>, 3> documents;
  const std::array<const std::vector<std::string>*, 3> paths = {&options.inputs, &options.validation, &options.other};
  for (const Part part : kAllParts) {
    const auto index = static_cast<size_t>(part);
    if (paths[index]->empty()) continue;
    DocumentSet set = read_documents(*paths[index], options.documents);
    report.kept_documents += static_cast<int64_t>(set.documents.size());
    report.blank_documents += set.blank_documents();
    report.invalid_sequences += set.invalid_sequences();
    report.encoded_bytes += set.text_bytes();
    for (auto& file : describe(set, part)) files.push_back(std::move(file));
    documents[index] = std::move(set.documents);
    if (documents[index].empty())
      throw Error(fmt::format("the {} inputs hold no document that is not blank ({} blank ones)", part_name(part),
                              set.blank_documents()),
                  "check the input files");
  }
  if (documents[0].empty()) throw UsageError("no input text was given", "heddle data build INPUT... -o STORE");
  if (options.validation.empty() && options.validation_fraction > 0) {
    split_documents(options, documents[0], documents[1]);
    report.moved_validation = static_cast<int64_t>(documents[1].size());
  }
  report.read_seconds = watch.lap();

  // Held-out text must not shape the vocabulary.
  const auto tokenizer = make_tokenizer(options, documents[0]);
  report.train_seconds = watch.lap();
  for (const Part part : kAllParts) encode_part(documents[static_cast<size_t>(part)], *tokenizer, content.part(part));
  report.encode_seconds = watch.lap();

  content.manifest = nlohmann::json({{"files", files},
                                     {"blank_documents", report.blank_documents},
                                     {"invalid_sequences", report.invalid_sequences},
                                     {"validation_fraction", options.validation_fraction},
                                     {"seed", options.seed}})
                         .dump(1);
  write_token_store(path, *tokenizer, content);
  report.write_seconds = watch.lap();
  return report;
}

}  // namespace heddle
