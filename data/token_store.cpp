#include "data/token_store.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "support/atomic_file.h"
#include "support/error.h"
#include "support/hash.h"
#include "support/hdf5.h"
#include "support/narrow.h"

namespace heddle {

namespace {

constexpr const char* kFormat = "heddle tokens";
constexpr const char* kRebuild = "build it again with 'heddle data build'";
constexpr size_t kBlock = 1 << 20;  // tokens converted and written at once

std::string group_of(Part part) {
  return std::string("/") + part_name(part);
}

void write_bytes(h5::File& file, const std::string& dataset, const std::string& bytes) {
  file.write<uint8_t>(dataset, {bytes.size()}, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

std::string read_bytes(const h5::File& file, const std::string& dataset) {
  const auto bytes = file.read<uint8_t>(dataset);
  return std::string(bytes.begin(), bytes.end());
}

template <typename Token>
void write_tokens(h5::File& file, const std::string& dataset, std::span<const uint32_t> tokens, StreamHash& hash) {
  file.create(dataset, h5::type_of<Token>(), {tokens.size()});
  std::vector<Token> block;
  for (size_t first = 0; first < tokens.size(); first += kBlock) {
    const auto source = tokens.subspan(first, std::min(kBlock, tokens.size() - first));
    block.assign(source.begin(), source.end());
    hash.update(block.data(), block.size() * sizeof(Token));
    file.write_rows(dataset, h5::type_of<Token>(), first, block.size(), block.data());
  }
}

void check_ids(const PartContent& content, Part part, int64_t vocabulary_size) {
  const auto wrong = std::find_if(content.tokens.begin(), content.tokens.end(),
                                  [&](uint32_t id) { return static_cast<int64_t>(id) >= vocabulary_size; });
  if (wrong != content.tokens.end())
    throw Error(fmt::format("{} token {} has id {}, but the vocabulary has {} ids (0 to {})", part_name(part),
                            wrong - content.tokens.begin(), *wrong, vocabulary_size, vocabulary_size - 1),
                "the tokens were made by another tokenizer");
}

}  // namespace

const char* part_name(Part part) {
  constexpr std::array<const char*, 3> kNames = {"train", "validation", "other"};
  return kNames.at(static_cast<size_t>(part));
}

void PartContent::add(const Tokenizer& tokenizer, std::string_view text) {
  tokenizer.encode(text, tokens);
  tokens.push_back(tokenizer.end_of_document());
  document_end.push_back(tokens.size());
  text_bytes += static_cast<int64_t>(text.size());
}

void write_token_store(const std::string& path, const Tokenizer& tokenizer, const StoreContent& content) {
  const int64_t vocabulary_size = tokenizer.vocabulary_size();
  for (const Part part : kAllParts) check_ids(content.parts[static_cast<size_t>(part)], part, vocabulary_size);
  publish_file(path, [&](const std::string& temporary) {
    h5::File file(temporary, h5::File::Mode::kCreate);
    StreamHash hash;
    for (const Part part : kAllParts) {
      const PartContent& source = content.parts[static_cast<size_t>(part)];
      if (source.tokens.empty()) continue;
      const std::string group = group_of(part);
      if (vocabulary_size <= 65536)
        write_tokens<uint16_t>(file, group + "/tokens", source.tokens, hash);
      else
        write_tokens<uint32_t>(file, group + "/tokens", source.tokens, hash);
      hash.update(source.document_end.data(), source.document_end.size() * sizeof(uint64_t));
      file.write<uint64_t>(group + "/document_end", {source.document_end.size()}, source.document_end);
      file.set_attribute(group, "text_bytes", source.text_bytes);
    }
    write_bytes(file, "/tokenizer", tokenizer.serialized());
    write_bytes(file, "/manifest", content.manifest);
    file.set_attribute("/", "format", std::string(kFormat));
    file.set_attribute("/", "version", TokenStore::kVersion);
    file.set_attribute("/", "vocabulary_size", vocabulary_size);
    file.set_attribute("/", "end_of_document", static_cast<int64_t>(tokenizer.end_of_document()));
    file.set_attribute("/", "tokenizer_kind", tokenizer.kind());
    file.set_attribute("/", "tokenizer_fingerprint", tokenizer.fingerprint());
    file.set_attribute("/", "content_hash", hash.hex());
    file.set_attribute("/", "build_key", content.build_key);
  });
}

TokenStore TokenStore::open(const std::string& path, bool verify) {
  if (!std::filesystem::exists(path))
    throw UsageError(
        fmt::format("there is no token store '{}'", path),
        fmt::format("build it: heddle data build TEXTS -o {} (docs/commands.md); launch/quickstart.sh makes "
                    "runs/data/classics.h5",
                    path));
  const h5::File file(path, h5::File::Mode::kRead);
  if (!file.has_attribute("/", "format") || file.text_attribute("/", "format") != kFormat)
    throw Error(fmt::format("'{}' is an HDF5 file, but not a token store", path),
                "give a file made by 'heddle data build'");
  if (const int64_t version = file.integer_attribute("/", "version"); version != kVersion)
    throw Error(fmt::format("token store '{}' has format version {}, expected {}", path, version, kVersion), kRebuild);
  TokenStore store;
  store.path_ = path;
  store.vocabulary_size_ = file.integer_attribute("/", "vocabulary_size");
  store.end_of_document_ = narrow<uint32_t>(file.integer_attribute("/", "end_of_document"));
  store.tokenizer_kind_ = file.text_attribute("/", "tokenizer_kind");
  store.tokenizer_fingerprint_ = file.text_attribute("/", "tokenizer_fingerprint");
  store.content_hash_ = file.text_attribute("/", "content_hash");
  store.build_key_ = file.text_attribute("/", "build_key");
  store.tokenizer_bytes_ = read_bytes(file, "/tokenizer");
  store.manifest_ = read_bytes(file, "/manifest");
  store.width_ = store.vocabulary_size_ <= 65536 ? 2 : 4;
  if (store.vocabulary_size_ < 2 || static_cast<int64_t>(store.end_of_document_) >= store.vocabulary_size_)
    throw Error(fmt::format("token store '{}': end mark {} with a vocabulary of {} ids", path, store.end_of_document_,
                            store.vocabulary_size_),
                kRebuild);
  store.map_ = MemoryMap(path);
  for (const Part part : kAllParts) {
    const std::string group = group_of(part);
    if (!file.exists(group)) continue;
    View& view = store.views_[static_cast<size_t>(part)];
    const std::string tokens = group + "/tokens";
    const h5::Type expected = store.width_ == 2 ? h5::Type::kUint16 : h5::Type::kUint32;
    if (file.type(tokens) != expected || file.extent(tokens).size() != 1)
      throw Error(fmt::format("token store '{}': {} is not a list of {}-bit numbers, which a vocabulary of {} needs",
                              path, tokens, 8 * store.width_, store.vocabulary_size_),
                  kRebuild);
    view.tokens = narrow<int64_t>(file.extent(tokens)[0]);
    view.offset = file.file_offset(tokens);
    view.text_bytes = file.integer_attribute(group, "text_bytes");
    view.document_end = file.read<uint64_t>(group + "/document_end");
    const uint64_t end = view.offset + static_cast<uint64_t>(view.tokens) * static_cast<uint64_t>(store.width_);
    if (end > store.map_.bytes())
      throw Error(fmt::format("token store '{}' is cut off: {} tokens of the {} part end at byte {}, the file has {}",
                              path, view.tokens, part_name(part), end, store.map_.bytes()),
                  "copy the file again, or " + std::string(kRebuild));
    store.check_ends(part);
  }
  if (!store.has(Part::kTrain)) throw Error(fmt::format("token store '{}' has no train tokens", path), kRebuild);
  if (verify) store.verify();
  return store;
}

void TokenStore::check_ends(Part part) const {
  const View& part_view = view(part);
  uint64_t previous = 0;
  for (size_t i = 0; i < part_view.document_end.size(); ++i) {
    const uint64_t end = part_view.document_end[i];
    if (end <= previous)
      throw Error(fmt::format("token store '{}': {} document {} ends at token {}, not behind the one before it ({})",
                              path_, part_name(part), i, end, previous),
                  kRebuild);
    previous = end;
  }
  if (previous != static_cast<uint64_t>(part_view.tokens))
    throw Error(fmt::format("token store '{}': the {} documents end at token {}, but there are {} tokens", path_,
                            part_name(part), previous, part_view.tokens),
                kRebuild);
}

void TokenStore::verify() const {
  StreamHash hash;
  for (const Part part : kAllParts) {
    if (!has(part)) continue;
    const View& part_view = view(part);
    size_t document = 0;
    for (int64_t i = 0; i < part_view.tokens; ++i) {
      const uint32_t id = token(part, i);
      const uint64_t byte = part_view.offset + static_cast<uint64_t>(i * width_);
      if (static_cast<int64_t>(id) >= vocabulary_size_)
        throw Error(
            fmt::format("token store '{}': {} token {} (byte {}) has id {}, but the vocabulary has {} ids (0 to {})",
                        path_, part_name(part), i, byte, id, vocabulary_size_, vocabulary_size_ - 1),
            kRebuild);
      const bool last = static_cast<uint64_t>(i) + 1 == part_view.document_end[document];
      if (last != (id == end_of_document_))
        throw Error(fmt::format("token store '{}': {} token {} (byte {}) {}", path_, part_name(part), i, byte,
                                last ? "ends a document without the end mark" : "is an end mark inside a document"),
                    kRebuild);
      document += last ? 1 : 0;
    }
    hash.update(map_.data() + part_view.offset, static_cast<size_t>(part_view.tokens * width_));
    hash.update(part_view.document_end.data(), part_view.document_end.size() * sizeof(uint64_t));
  }
  if (hash.hex() != content_hash_)
    throw Error(
        fmt::format("token store '{}' is damaged: content hash {}, expected {}", path_, hash.hex(), content_hash_),
        "copy the file again, or " + std::string(kRebuild));
  if (tokenizer()->fingerprint() != tokenizer_fingerprint_)
    throw Error(fmt::format("token store '{}': the stored tokenizer has fingerprint {}, the tokens were made with {}",
                            path_, tokenizer()->fingerprint(), tokenizer_fingerprint_),
                kRebuild);
}

void TokenStore::require_part(Part part) const {
  if (has(part)) return;
  throw Error(fmt::format("token store '{}' has no {} part", path_, part_name(part)),
              part == Part::kOther ? "build it with --other PATH"
                                   : "build it with --validation PATH or --data.validation_fraction above 0");
}

void TokenStore::check_range(Part part, int64_t first, int64_t count) const {
  if (first < 0 || count < 0 || first > tokens(part) - count)
    fail("token store '{}': tokens {} to {} of the {} part were asked for, which has {}", path_, first, first + count,
         part_name(part), tokens(part));
}

uint32_t TokenStore::token(Part part, int64_t index) const {
  check_range(part, index, 1);
  const unsigned char* at = map_.data() + view(part).offset + static_cast<uint64_t>(index * width_);
  if (width_ == 2) {
    uint16_t id = 0;
    std::memcpy(&id, at, sizeof(id));
    return id;
  }
  uint32_t id = 0;
  std::memcpy(&id, at, sizeof(id));
  return id;
}

void TokenStore::copy_tokens(Part part, int64_t first, int64_t count, int32_t* out) const {
  check_range(part, first, count);
  const unsigned char* at = map_.data() + view(part).offset + static_cast<uint64_t>(first * width_);
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t id = 0;
    if (width_ == 4) {
      std::memcpy(&id, at + 4 * i, sizeof id);
    } else {
      uint16_t narrow_id = 0;
      std::memcpy(&narrow_id, at + 2 * i, sizeof narrow_id);
      id = narrow_id;
    }
    largest = std::max(largest, id);
    out[i] = static_cast<int32_t>(id);
  }
  if (static_cast<int64_t>(largest) >= vocabulary_size_)
    throw Error(
        fmt::format("token store '{}' is damaged: among the {} tokens {} to {} there is the id {}, its vocabulary "
                    "has {} ids",
                    path_, part_name(part), first, first + count - 1, largest, vocabulary_size_),
        "build the store again: heddle data build ... --force");
}

std::vector<uint32_t> TokenStore::read_tokens(Part part, int64_t first, int64_t count) const {
  check_range(part, first, count);
  std::vector<int32_t> ids(static_cast<size_t>(count));
  copy_tokens(part, first, count, ids.data());
  return std::vector<uint32_t>(ids.begin(), ids.end());
}

}  // namespace heddle
