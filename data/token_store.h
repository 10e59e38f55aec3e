// The token store: one HDF5 file with the ids of all documents, their ends and the tokenizer. Layout:
//   /<part>/tokens        uint16 if the vocabulary has at most 65536 ids, else uint32; contiguous, memory-mapped
//   /<part>/document_end  uint64, exclusive token index of each document's end, strictly increasing
//   /<part>@text_bytes    UTF-8 bytes of the part's text; end marks count 0
//   /tokenizer, /manifest uint8, Tokenizer::serialized() and the sources as JSON
//   /@format, version, vocabulary_size, end_of_document, tokenizer_kind, tokenizer_fingerprint, content_hash, build_key
// Parts are train, validation and other (a second held-out text). Every document ends with exactly one end mark.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/memory_map.h"
#include "data/tokenizer.h"

namespace heddle {

enum class Part { kTrain, kValidation, kOther };
inline constexpr std::array<Part, 3> kAllParts = {Part::kTrain, Part::kValidation, Part::kOther};
const char* part_name(Part part);

/// Tokens of one part on their way into a store.
struct PartContent {
  std::vector<uint32_t> tokens;
  std::vector<uint64_t> document_end;
  int64_t text_bytes = 0;

  /// Encodes a document and adds the end mark.
  void add(const Tokenizer& tokenizer, std::string_view text);
};

struct StoreContent {
  std::array<PartContent, 3> parts;  ///< indexed by Part; a part without tokens is left out
  std::string manifest = "{}";       ///< JSON
  std::string build_key;             ///< hash of inputs and settings
  PartContent& part(Part which) { return parts[static_cast<size_t>(which)]; }
};

/// Writes the store and publishes it at once (publish_file). Throws Error for an id outside of the vocabulary.
void write_token_store(const std::string& path, const Tokenizer& tokenizer, const StoreContent& content);

/// A store opened for reading. Opening checks format, version, sizes and document ends; the tokens are read through a
/// memory map, also from other threads.
class TokenStore {
 public:
  static constexpr int64_t kVersion = 1;

  /// `verify` also reads all tokens: every id below the vocabulary size, end marks at the document ends only, and the
  /// content hash. Throws UsageError for a file that is not there, and Error naming file, place, found and expected.
  static TokenStore open(const std::string& path, bool verify = false);

  const std::string& path() const { return path_; }
  int64_t vocabulary_size() const { return vocabulary_size_; }
  uint32_t end_of_document() const { return end_of_document_; }
  const std::string& tokenizer_kind() const { return tokenizer_kind_; }
  const std::string& tokenizer_fingerprint() const { return tokenizer_fingerprint_; }
  const std::string& content_hash() const { return content_hash_; }
  const std::string& build_key() const { return build_key_; }
  const std::string& manifest() const { return manifest_; }
  int token_width() const { return width_; }  ///< bytes in the file: 2 or 4
  std::unique_ptr<Tokenizer> tokenizer() const { return load_tokenizer(tokenizer_bytes_, path_); }
  const std::string& tokenizer_bytes() const { return tokenizer_bytes_; }

  bool has(Part part) const { return view(part).tokens > 0; }
  /// Throws Error, with what to do, if the store lacks the part.
  void require_part(Part part) const;
  int64_t tokens(Part part) const { return view(part).tokens; }
  int64_t documents(Part part) const { return static_cast<int64_t>(view(part).document_end.size()); }
  int64_t text_bytes(Part part) const { return view(part).text_bytes; }
  std::span<const uint64_t> document_ends(Part part) const { return view(part).document_end; }

  uint32_t token(Part part, int64_t index) const;
  /// Tokens [first, first + count) as int32; throws Error outside of the part.
  void copy_tokens(Part part, int64_t first, int64_t count, int32_t* out) const;
  std::vector<uint32_t> read_tokens(Part part, int64_t first, int64_t count) const;

 private:
  struct View {
    int64_t tokens = 0;
    int64_t text_bytes = 0;
    uint64_t offset = 0;  ///< of the first token in the file
    std::vector<uint64_t> document_end;
  };
  const View& view(Part part) const { return views_[static_cast<size_t>(part)]; }
  void check_range(Part part, int64_t first, int64_t count) const;
  void check_ends(Part part) const;
  void verify() const;

  std::string path_, tokenizer_kind_, tokenizer_fingerprint_, content_hash_, build_key_, manifest_, tokenizer_bytes_;
  int64_t vocabulary_size_ = 0;
  uint32_t end_of_document_ = 0;
  int width_ = 2;
  std::array<View, 3> views_;
  MemoryMap map_;
};

}  // namespace heddle
