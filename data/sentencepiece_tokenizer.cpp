// Byte-pair encoding with the SentencePiece library (Sennrich et al. 2016; Kudo and Richardson 2018), set up so that
// nothing is lost: no normalisation, no added spaces, bytes for everything outside of the vocabulary.
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>
#include <utf8.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "data/tokenizer.h"
#include "support/error.h"

namespace heddle {

namespace {

constexpr std::string_view kHeader = "heddle tokenizer 1 sentencepiece\n";
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";    // U+2581, the library's stand-in for a space
constexpr std::string_view kUnknownMark = "\xE2\x96\x85";  // U+2585: the trainer skips any sentence that holds it
constexpr size_t kLongestSentence = 50'000;                // bytes; the library's limit is set above it

/// Bytes at the front of `text` that the library would not give back (U+2581, NUL, broken UTF-8); 0 if it would.
size_t lossy_prefix(std::string_view text) {
  if (text.starts_with(kSpaceMark)) return kSpaceMark.size();
  if (text.front() == '\0') return 1;
  const char* cursor = text.data();
  uint32_t code_point = 0;
  return utf8::internal::validate_next(cursor, text.data() + text.size(), code_point) == utf8::internal::UTF8_OK ? 0
                                                                                                                 : 1;
}

size_t character_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  if (byte < 0x80) return 1;
  if (byte < 0xE0) return 2;
  return byte < 0xF0 ? 3 : 4;
}

/// Lets the cache be searched for a part of the text without a copy of it.
struct WordHash {
  using is_transparent = void;
  size_t operator()(std::string_view word) const { return std::hash<std::string_view>()(word); }
};

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(std::string_view model, const std::string& source) : model_(model) {
    const auto status = processor_.LoadFromSerializedProto(model);
    if (!status.ok())
      throw Error(fmt::format("the tokenizer in '{}' cannot be read: {}", source, status.ToString()),
                  "the file may be damaged; build it again");
    read_pieces(source);
  }

  std::string kind() const override { return "sentencepiece"; }
  std::string serialized() const override { return std::string(kHeader) + model_; }

  void encode(std::string_view text, std::vector<uint32_t>& ids) const override {
    const std::lock_guard lock(mutex_);
    size_t begin = 0;
    size_t at = 0;
    while (at < text.size()) {
      if (const size_t lossy = lossy_prefix(text.substr(at)); lossy > 0) {
        encode_words(text.substr(begin, at - begin), ids);
        for (size_t i = 0; i < lossy; ++i) ids.push_back(byte_ids_[static_cast<unsigned char>(text[at + i])]);
        begin = at += lossy;
      } else {
        at += character_length(text[at]);
      }
    }
    encode_words(text.substr(begin), ids);
  }

 private:
  static constexpr size_t kCacheEntries = 200'000;
  static constexpr size_t kCachedBytes = 48;

  void read_pieces(const std::string& source) {
    const int count = processor_.GetPieceSize();
    std::vector<std::string> pieces;
    std::vector<std::string> labels;
    byte_ids_.assign(256, UINT32_MAX);
    for (int id = 0; id < count; ++id) {
      const std::string& piece = processor_.IdToPiece(id);
      labels.push_back(piece);
      if (processor_.IsByte(id)) {
        const auto value = static_cast<unsigned char>(std::stoi(piece.substr(3, 2), nullptr, 16));
        byte_ids_[value] = static_cast<uint32_t>(id);
        pieces.emplace_back(1, static_cast<char>(value));
      } else if (processor_.IsControl(id)) {
        pieces.emplace_back();
      } else if (processor_.IsUnknown(id)) {
        pieces.emplace_back("\xEF\xBF\xBD");  // never produced by encode; a model may still draw it
      } else {
        std::string bytes;
        for (size_t i = 0; i < piece.size();) {
          const bool space = std::string_view(piece).substr(i).starts_with(kSpaceMark);
          bytes += space ? ' ' : piece[i];
          i += space ? kSpaceMark.size() : 1;
        }
        pieces.push_back(std::move(bytes));
      }
    }
    const int end = processor_.eos_id();
    if (end < 0 || std::count(byte_ids_.begin(), byte_ids_.end(), UINT32_MAX) > 0)
      throw Error(fmt::format("the SentencePiece model in '{}' lacks {}", source,
                              end < 0 ? "an end-of-sentence piece" : "some of the 256 byte pieces"),
                  "train it with byte_fallback=true and an eos_id");
    set_pieces(std::move(pieces), static_cast<uint32_t>(end), "sentencepiece", labels);
  }

  /// No piece has a space behind another character (split_by_whitespace), so the text in front of a run of spaces and
  /// the text from it on are encoded independently. Words repeat, hence the cache: about ten times the speed.
  void encode_words(std::string_view text, std::vector<uint32_t>& ids) const {
    size_t begin = 0;
    for (size_t at = 1; at <= text.size(); ++at) {
      if (at < text.size() && !(text[at] == ' ' && text[at - 1] != ' ')) continue;
      encode_word(text.substr(begin, at - begin), ids);
      begin = at;
    }
  }

  void encode_word(std::string_view word, std::vector<uint32_t>& ids) const {
    const bool cached = word.size() <= kCachedBytes;
    if (cached) {
      if (const auto found = cache_.find(word); found != cache_.end()) {
        ids.insert(ids.end(), found->second.begin(), found->second.end());
        return;
      }
    }
    std::vector<int> raw;
    const auto status = processor_.Encode(word, &raw);
    if (!status.ok()) fail("SentencePiece cannot encode a word of {} bytes: {}", word.size(), status.ToString());
    std::vector<uint32_t> word_ids(raw.begin(), raw.end());
    ids.insert(ids.end(), word_ids.begin(), word_ids.end());
    if (cached && cache_.size() < kCacheEntries) cache_.emplace(word, std::move(word_ids));
  }

  sentencepiece::SentencePieceProcessor processor_;
  std::string model_;
  std::vector<uint32_t> byte_ids_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::string, std::vector<uint32_t>, WordHash, std::equal_to<>> cache_;
};

/// Feeds the trainer one sentence after another.
class SentenceList final : public sentencepiece::SentenceIterator {
 public:
  explicit SentenceList(std::vector<std::string> sentences) : sentences_(std::move(sentences)) {}
  bool done() const override { return at_ >= sentences_.size(); }
  void Next() override { ++at_; }
  const std::string& value() const override { return sentences_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::vector<std::string> sentences_;
  size_t at_ = 0;
};

/// Adds `text` in sentences that the trainer accepts: cut at the characters it refuses and when they are too long.
void add_sentences(std::string_view text, std::vector<std::string>& sentences) {
  size_t begin = 0;
  size_t at = 0;
  const auto cut = [&](size_t skip) {
    if (at > begin) sentences.emplace_back(text.substr(begin, at - begin));
    begin = at += skip;
  };
  while (at < text.size()) {
    const std::string_view rest = text.substr(at);
    if (const size_t lossy = lossy_prefix(rest); lossy > 0) {
      cut(lossy);
    } else if (rest.starts_with(kUnknownMark)) {
      cut(kUnknownMark.size());
    } else {
      if (at - begin >= kLongestSentence) cut(0);
      at += character_length(text[at]);
    }
  }
  cut(0);
}

/// Paragraphs with their inner newlines and the blank line behind them, so that newlines become ordinary pieces. Every
/// n-th is taken, so that about `limit` bytes remain.
std::vector<std::string> sample_sentences(std::span<const std::string_view> texts, int64_t limit) {
  int64_t total = 0;
  for (const std::string_view text : texts) total += static_cast<int64_t>(text.size());
  const int64_t stride = std::max<int64_t>(1, (total + limit - 1) / std::max<int64_t>(1, limit));
  std::vector<std::string> sentences;
  int64_t paragraph = 0;
  for (const std::string_view text : texts) {
    for (size_t begin = 0; begin < text.size();) {
      const size_t blank = text.find("\n\n", begin);
      const size_t end = blank == std::string_view::npos ? text.size() : text.find_first_not_of('\n', blank);
      const size_t stop = std::min(end, text.size());
      if (paragraph++ % stride == 0) add_sentences(text.substr(begin, stop - begin), sentences);
      begin = stop;
    }
  }
  return sentences;
}

/// The number that follows `mark` in the library's message; empty if there is none.
std::string number_after(const std::string& message, std::string_view mark) {
  const size_t found = message.find(mark);
  if (found == std::string::npos) return {};
  const size_t begin = found + mark.size();
  const size_t end = std::min(message.find_first_not_of("0123456789", begin), message.size());
  return message.substr(begin, end - begin);
}

[[noreturn]] void fail_training(const std::string& message, int64_t vocabulary_size) {
  if (const std::string most = number_after(message, "value <= "); !most.empty())
    throw Error(
        fmt::format("the text is too small for a vocabulary of {}: it supports at most {}", vocabulary_size, most),
        fmt::format("use --data.vocabulary_size {} or less, or more text", most));
  if (message.find("required_chars") != std::string::npos)
    throw Error(
        fmt::format("a vocabulary of {} is too small: the characters of the text, 256 bytes and 2 marks need {}",
                    vocabulary_size, number_after(message, " vs ")),
        fmt::format("use --data.vocabulary_size {} or more, or --data.tokenizer bytes", number_after(message, " vs ")));
  throw Error(fmt::format("SentencePiece could not train a vocabulary of {}: {}", vocabulary_size, message),
              "try --data.tokenizer bytes");
}

}  // namespace

std::unique_ptr<Tokenizer> train_sentencepiece(std::span<const std::string_view> texts,
                                               const SentencePieceOptions& options) {
  std::vector<std::string> sentences = sample_sentences(texts, options.training_bytes);
  if (sentences.empty()) throw Error("there is no text to train the tokenizer on", "check the input files");
  SentenceList iterator(std::move(sentences));
  const std::unordered_map<std::string, std::string> settings = {
      {"model_type", "bpe"},
      {"vocab_size", std::to_string(options.vocabulary_size)},
      {"byte_fallback", "true"},
      {"character_coverage", "1.0"},
      {"normalization_rule_name", "identity"},
      {"remove_extra_whitespaces", "false"},
      {"add_dummy_prefix", "false"},
      {"split_digits", "true"},
      {"allow_whitespace_only_pieces", "true"},
      {"bos_id", "-1"},
      {"pad_id", "-1"},
      {"unk_id", "0"},
      {"eos_id", "1"},
      {"eos_piece", "<|endoftext|>"},
      {"max_sentence_length", std::to_string(2 * kLongestSentence)},
      {"num_threads", "1"},  // it is written into the model, whose bytes shall not depend on the machine
      {"minloglevel", "3"},
  };
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(settings, &iterator, &model);
  if (!status.ok()) fail_training(status.ToString(), options.vocabulary_size);
  auto tokenizer = load_sentencepiece(model, "the trained model");
  if (tokenizer->vocabulary_size() != options.vocabulary_size)
    fail("SentencePiece made {} pieces, expected {}", tokenizer->vocabulary_size(), options.vocabulary_size);
  return tokenizer;
}

std::unique_ptr<Tokenizer> load_sentencepiece(std::string_view model, const std::string& source) {
  return std::make_unique<SentencePieceTokenizer>(model, source);
}

}  // namespace heddle
