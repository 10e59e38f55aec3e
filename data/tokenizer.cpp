#include "data/tokenizer.h"

#include "support/error.h"
#include "support/hash.h"

namespace heddle {

std::vector<uint32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<uint32_t> ids;
  encode(text, ids);
  return ids;
}

std::string_view Tokenizer::piece_bytes(uint32_t id) const {
  if (id >= pieces_.size())
    fail("token id {} is outside of the vocabulary of the {} tokenizer (0 to {})", id, kind(), pieces_.size() - 1);
  return pieces_[id];
}

std::string Tokenizer::decode(std::span<const uint32_t> ids) const {
  std::string text;
  for (const uint32_t id : ids) text += piece_bytes(id);
  return text;
}

void Tokenizer::set_pieces(std::vector<std::string> pieces, uint32_t end_of_document, std::string_view kind,
                           std::span<const std::string> labels) {
  pieces_ = std::move(pieces);
  end_of_document_ = end_of_document;
  // Lengths in front of the labels keep different lists from giving the same bytes.
  std::string list = fmt::format("{}\n{}\n", kind, end_of_document);
  for (const std::string& label : labels) list += fmt::format("{}:{}", label.size(), label);
  fingerprint_ = hash128_hex(list);
}

namespace {

constexpr std::string_view kByteHeader = "heddle tokenizer 1 bytes\n";
constexpr std::string_view kSentencePieceHeader = "heddle tokenizer 1 sentencepiece\n";

class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer() {
    std::vector<std::string> pieces;
    for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
    std::vector<std::string> labels = pieces;
    pieces.emplace_back();
    labels.emplace_back("<|endoftext|>");
    set_pieces(std::move(pieces), 256, "bytes", labels);
  }
  std::string kind() const override { return "bytes"; }
  void encode(std::string_view text, std::vector<uint32_t>& ids) const override {
    ids.reserve(ids.size() + text.size());
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  }
  std::string serialized() const override { return std::string(kByteHeader); }
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_tokenizer() {
  return std::make_unique<ByteTokenizer>();
}

std::unique_ptr<Tokenizer> load_tokenizer(std::string_view serialized, const std::string& source) {
  if (serialized == kByteHeader) return make_byte_tokenizer();
  if (serialized.starts_with(kSentencePieceHeader))
    return load_sentencepiece(serialized.substr(kSentencePieceHeader.size()), source);
  throw Error(fmt::format("'{}' holds no tokenizer that this program knows: it begins with '{}'", source,
                          serialized.substr(0, std::min<size_t>(serialized.find('\n'), 40))),
              "known kinds are bytes and sentencepiece, format 1; build the token store again");
}

}  // namespace heddle
