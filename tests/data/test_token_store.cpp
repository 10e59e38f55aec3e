#include <gtest/gtest.h>

#include <filesystem>

#include "data/store_builder.h"
#include "data/token_store.h"
#include "support/error.h"
#include "support/hdf5.h"
#include "temporary_folder.h"

namespace heddle {
namespace {

/// A vocabulary of any size, to reach token widths that text of a test cannot.
class WideTokenizer final : public Tokenizer {
 public:
  explicit WideTokenizer(int64_t size) {
    std::vector<std::string> pieces(static_cast<size_t>(size), "x");
    set_pieces(pieces, 0, "wide", pieces);
  }
  std::string kind() const override { return "wide"; }
  void encode(std::string_view, std::vector<uint32_t>&) const override {}
  std::string serialized() const override { return "wide"; }
};

StoreContent content_of(std::vector<uint32_t> tokens, std::vector<uint64_t> ends) {
  StoreContent content;
  content.part(Part::kTrain) = {std::move(tokens), std::move(ends), 1};
  return content;
}

std::string byte_store(const TemporaryFolder& folder) {
  const auto tokenizer = make_byte_tokenizer();
  StoreContent content;
  for (const char* text : {"ab", "c", "def"}) content.part(Part::kTrain).add(*tokenizer, text);
  content.part(Part::kValidation).add(*tokenizer, "xy");
  content.manifest = "{\"files\": []}";
  content.build_key = "key";
  write_token_store(folder.path("a.h5"), *tokenizer, content);
  return folder.path("a.h5");
}

TEST(TokenStore, KeepsWhatWasWritten) {
  const TemporaryFolder folder;
  const TokenStore store = TokenStore::open(byte_store(folder), true);
  EXPECT_EQ(store.vocabulary_size(), 257);
  EXPECT_EQ(store.token_width(), 2);
  EXPECT_EQ(store.end_of_document(), 256u);
  EXPECT_EQ(store.build_key(), "key");
  EXPECT_EQ(store.manifest(), "{\"files\": []}");
  EXPECT_EQ(store.tokens(Part::kTrain), 9);
  EXPECT_EQ(store.documents(Part::kTrain), 3);
  EXPECT_EQ(store.text_bytes(Part::kTrain), 6);
  EXPECT_EQ(store.text_bytes(Part::kValidation), 2);
  EXPECT_EQ(store.read_tokens(Part::kTrain, 0, 9),
            (std::vector<uint32_t>{'a', 'b', 256, 'c', 256, 'd', 'e', 'f', 256}));
  const auto ends = store.document_ends(Part::kTrain);
  EXPECT_EQ(std::vector<uint64_t>(ends.begin(), ends.end()), (std::vector<uint64_t>{3, 5, 9}));
  EXPECT_EQ(store.token(Part::kValidation, 1), static_cast<uint32_t>('y'));
  EXPECT_EQ(store.tokenizer()->fingerprint(), make_byte_tokenizer()->fingerprint());
  EXPECT_FALSE(store.has(Part::kOther));
  EXPECT_THROW(store.require_part(Part::kOther), Error);
  EXPECT_THROW(store.token(Part::kTrain, 9), Error);
  EXPECT_THROW(store.read_tokens(Part::kTrain, 5, 5), Error);
  EXPECT_THROW(store.token(Part::kOther, 0), Error);
  EXPECT_FALSE(std::filesystem::exists(folder.path("a.h5.tmp")));
}

TEST(TokenStore, WidthFollowsTheVocabulary) {
  const TemporaryFolder folder;
  for (const auto& [size, width] : {std::pair{65536, 2}, {65537, 4}, {70000, 4}}) {
    const auto last = static_cast<uint32_t>(size - 1);
    write_token_store(folder.path("w.h5"), WideTokenizer(size), content_of({65535, last, 0}, {3}));
    const TokenStore store = TokenStore::open(folder.path("w.h5"));
    EXPECT_EQ(store.token_width(), width) << size;
    EXPECT_EQ(store.token(Part::kTrain, 0), 65535u);
    EXPECT_EQ(store.token(Part::kTrain, 1), last);
    std::vector<int32_t> copy(3);
    store.copy_tokens(Part::kTrain, 0, 3, copy.data());
    EXPECT_EQ(copy, (std::vector<int32_t>{65535, static_cast<int32_t>(last), 0}));
  }
}

TEST(TokenStore, IdsOutsideOfTheVocabularyAreRefused) {
  const TemporaryFolder folder;
  expect_error<Error>(
      [&] {
        write_token_store(folder.path("w.h5"), WideTokenizer(70000), content_of({1, 70000, 0}, {3}));
      },
      "train token 1 has id 70000");
  EXPECT_FALSE(std::filesystem::exists(folder.path("w.h5")));
  const std::string path = byte_store(folder);
  {
    h5::File file(path, h5::File::Mode::kReadWrite);
    const uint16_t id = 257;
    file.write_rows("/train/tokens", h5::Type::kUint16, 5, 1, &id);
  }
  EXPECT_NO_THROW(TokenStore::open(path));
  expect_error<Error>([&] { TokenStore::open(path, true); }, "train token 5 (byte ");
  expect_error<Error>([&] { TokenStore::open(path, true); }, "has id 257");
}

TEST(TokenStore, ChangedTokensAreFoundByVerify) {
  const TemporaryFolder folder;
  const std::string path = byte_store(folder);
  const auto put = [&](uint64_t row, uint16_t id) {
    h5::File file(path, h5::File::Mode::kReadWrite);
    file.write_rows("/train/tokens", h5::Type::kUint16, row, 1, &id);
  };
  put(0, 'z');
  expect_error<Error>([&] { TokenStore::open(path, true); }, "content hash");
  put(0, 256);
  expect_error<Error>([&] { TokenStore::open(path, true); }, "end mark inside a document");
  put(0, 'a');
  EXPECT_NO_THROW(TokenStore::open(path, true));
  put(2, 'b');
  expect_error<Error>([&] { TokenStore::open(path, true); }, "without the end mark");
}

TEST(TokenStore, ForeignOldAndDamagedFilesAreRefused) {
  const TemporaryFolder folder;
  expect_error<UsageError>([&] { TokenStore::open(folder.path("none.h5")); }, "there is no token store");
  expect_error<Error>([&] { TokenStore::open(folder.write("t.h5", "some text")); }, "not an HDF5 file");
  { h5::File(folder.path("other.h5"), h5::File::Mode::kCreate).set_attribute("/", "format", std::string("else")); }
  expect_error<Error>([&] { TokenStore::open(folder.path("other.h5")); }, "not a token store");

  std::string path = byte_store(folder);
  h5::File(path, h5::File::Mode::kReadWrite).set_attribute("/", "version", int64_t{0});
  expect_error<Error>([&] { TokenStore::open(path); }, "format version 0, expected 1");

  path = byte_store(folder);
  h5::File(path, h5::File::Mode::kReadWrite).set_attribute("/", "vocabulary_size", int64_t{100000});
  expect_error<Error>([&] { TokenStore::open(path); }, "32-bit");

  path = byte_store(folder);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  EXPECT_THROW(TokenStore::open(path), Error);

  path = byte_store(folder);
  {
    h5::File file(path, h5::File::Mode::kReadWrite);
    const uint64_t end = 3;
    file.write_rows("/train/document_end", h5::Type::kUint64, 1, 1, &end);
  }
  expect_error<Error>([&] { TokenStore::open(path); }, "document 1 ends at token 3");
  {
    h5::File file(path, h5::File::Mode::kReadWrite);
    const uint64_t ends[] = {3, 5, 8};
    file.write_rows("/train/document_end", h5::Type::kUint64, 0, 3, ends);
  }
  expect_error<Error>([&] { TokenStore::open(path); }, "end at token 8, but there are 9");
}

TEST(TokenStore, FileAboveTwoGigabytes) {
  const TemporaryFolder folder;
  const std::string path = byte_store(folder);
  constexpr uint64_t kTokens = 1'200'000'000;  // 2.4 GB, sparse
  {
    h5::File file(path, h5::File::Mode::kReadWrite);
    file.create("/other/tokens", h5::Type::kUint16, {kTokens});
    const uint16_t last[] = {77, 256};
    file.write_rows("/other/tokens", h5::Type::kUint16, kTokens - 2, 2, last);
    const uint64_t end[] = {kTokens};
    file.write<uint64_t>("/other/document_end", {1}, end);
    file.set_attribute("/other", "text_bytes", static_cast<int64_t>(kTokens - 1));
  }
  const TokenStore store = TokenStore::open(path);
  EXPECT_EQ(store.tokens(Part::kOther), static_cast<int64_t>(kTokens));
  EXPECT_EQ(store.token(Part::kOther, kTokens - 1), 256u);
  EXPECT_EQ(store.token(Part::kOther, kTokens - 2), 77u);
  int32_t pair[2] = {};
  store.copy_tokens(Part::kOther, kTokens - 2, 2, pair);
  EXPECT_EQ(pair[0], 77);
}

TEST(StoreBuilder, BuildsFromFilesWithOneEndMarkPerDocument) {
  const TemporaryFolder folder;
  folder.write("in/a.jsonl",
               "{\"text\":\"\"}\n{\"text\":\"one\"}\n{\"text\":\" \"}\n{\"text\":\"two\\n\"}\n{\"text\":\"\"}\n");
  folder.write("v/v.txt", "held out");
  BuildOptions options;
  options.inputs = {folder.path("in")};
  options.validation = {folder.path("v")};
  options.tokenizer = "bytes";
  const BuildReport report = build_token_store(options, folder.path("s.h5"));
  EXPECT_EQ(report.kept_documents, 3);
  EXPECT_EQ(report.blank_documents, 3);
  const TokenStore store = TokenStore::open(folder.path("s.h5"), true);
  EXPECT_EQ(store.tokenizer()->decode(store.read_tokens(Part::kTrain, 0, store.tokens(Part::kTrain))), "onetwo\n");
  EXPECT_EQ(store.tokens(Part::kTrain), 7 + 2);
  EXPECT_EQ(store.build_key(), build_key(options));
  EXPECT_NE(store.manifest().find("\"blank_documents\": 3"), std::string::npos);

  folder.write("v/v.txt", "held out!");
  EXPECT_NE(store.build_key(), build_key(options));
  options.inputs = {folder.write("blank.txt", " \n")};
  expect_error<Error>([&] { build_token_store(options, folder.path("t.h5")); }, "no document that is not blank");
}

TEST(StoreBuilder, FractionMovesDocumentsByTheirText) {
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 400; ++i) lines += fmt::format("{{\"text\":\"document {}\"}}\n", i % 200);  // each twice
  BuildOptions options;
  options.inputs = {folder.write("a.jsonl", lines)};
  options.tokenizer = "bytes";
  options.validation_fraction = 0.2;
  const BuildReport report = build_token_store(options, folder.path("s.h5"));
  EXPECT_GT(report.moved_validation, 40);
  EXPECT_LT(report.moved_validation, 120);
  EXPECT_EQ(report.moved_validation % 2, 0);  // both copies go to the same side
  const TokenStore store = TokenStore::open(folder.path("s.h5"), true);
  EXPECT_EQ(store.documents(Part::kTrain) + store.documents(Part::kValidation), 400);
  EXPECT_NE(is_validation_document("a", 0.5, 1) + 2 * is_validation_document("b", 0.5, 1) +
                4 * is_validation_document("c", 0.5, 1) + 8 * is_validation_document("d", 0.5, 1),
            is_validation_document("a", 0.5, 2) + 2 * is_validation_document("b", 0.5, 2) +
                4 * is_validation_document("c", 0.5, 2) + 8 * is_validation_document("d", 0.5, 2));
  options.inputs = {folder.write("one.txt", "only one document")};
  expect_error<Error>([&] { build_token_store(options, folder.path("t.h5")); }, "leaves");
}

TEST(StoreBuilder, TokenizerOfAnotherStoreIsReused) {
  const TemporaryFolder folder;
  BuildOptions options;
  options.inputs = {folder.write("a.txt", "abc")};
  options.tokenizer_from = byte_store(folder);
  build_token_store(options, folder.path("s.h5"));
  EXPECT_EQ(TokenStore::open(folder.path("s.h5")).tokenizer_fingerprint(), make_byte_tokenizer()->fingerprint());
}

}  // namespace
}  // namespace heddle
