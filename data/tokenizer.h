// Tokenizers: text to token ids and back, without loss. Two kinds: "bytes" (no training; tests and the smallest demo)
// and "sentencepiece" (byte-pair encoding with byte fallback, trained on the corpus).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

/// Maps any string of bytes to ids in [0, vocabulary_size()) and back: decode(encode(text)) == text always, also for
/// bytes that are not UTF-8. Const functions may be called from several threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string kind() const = 0;
  int64_t vocabulary_size() const { return static_cast<int64_t>(pieces_.size()); }
  /// Id that ends every document; encode never returns it, whatever the text.
  uint32_t end_of_document() const { return end_of_document_; }

  /// Appends the ids of `text` to `ids`; no end mark is added.
  virtual void encode(std::string_view text, std::vector<uint32_t>& ids) const = 0;
  std::vector<uint32_t> encode(std::string_view text) const;

  /// Bytes of the ids; the end mark has none. Throws Error for an id outside of the vocabulary.
  std::string decode(std::span<const uint32_t> ids) const;
  std::string_view piece_bytes(uint32_t id) const;

  /// 128-bit hash, as hexadecimal text, of the kind and the list of pieces: equal means that ids mean the same.
  const std::string& fingerprint() const { return fingerprint_; }

  /// Bytes from which load_tokenizer makes the same tokenizer; stored in token stores and checkpoints.
  virtual std::string serialized() const = 0;

 protected:
  /// Sets the pieces and their fingerprint. `labels` tells pieces with equal bytes apart (a byte and a character).
  void set_pieces(std::vector<std::string> pieces, uint32_t end_of_document, std::string_view kind,
                  std::span<const std::string> labels);

 private:
  std::vector<std::string> pieces_;
  uint32_t end_of_document_ = 0;
  std::string fingerprint_;
};

/// 256 bytes with their own value as id; 256 ends a document.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

struct SentencePieceOptions {
  int64_t vocabulary_size = 4096;       ///< ids, with 256 bytes and 2 marks
  int64_t training_bytes = 16'000'000;  ///< about this much text is used, evenly spread over the corpus
};

/// Trains byte-pair encoding on the texts (valid UTF-8). The result depends only on the texts and the options.
/// Throws Error, with the possible sizes where they are known, if the texts do not support the vocabulary.
std::unique_ptr<Tokenizer> train_sentencepiece(std::span<const std::string_view> texts,
                                               const SentencePieceOptions& options);

/// From serialized(). `source` names the file in errors.
std::unique_ptr<Tokenizer> load_tokenizer(std::string_view serialized, const std::string& source);

/// From the model that follows the first line of serialized(): used by load_tokenizer.
std::unique_ptr<Tokenizer> load_sentencepiece(std::string_view model, const std::string& source);

}  // namespace heddle
