#include <gtest/gtest.h>
#include <sentencepiece_processor.h>

#include <set>

#include "data/tokenizer.h"
#include "support/error.h"

namespace heddle {
namespace {

/// Deterministic prose: words of a small lexicon in paragraphs, with newlines, digits and some accents.
std::string sample_text(int paragraphs) {
  const char* words[] = {"the",   "loom", "weaves",  "a",    "thread", "of",     "wool", "and",  "linen",   "naïve",
                         "Weber", "1801", "heddles", "lift", "every",  "second", "warp", "then", "shuttle", "passes"};
  std::string text;
  uint32_t state = 1;
  for (int p = 0; p < paragraphs; ++p) {
    for (int w = 0; w < 40; ++w) {
      state = state * 1664525u + 1013904223u;
      if (w > 0) text += w % 13 == 0 ? '\n' : ' ';
      text += words[(state >> 16) % std::size(words)];
    }
    text += ".\n\n";
  }
  return text;
}

std::unique_ptr<Tokenizer> trained(int64_t vocabulary_size) {
  const std::string text = sample_text(100);
  const std::string_view texts[] = {text};
  return train_sentencepiece(texts, {.vocabulary_size = vocabulary_size, .training_bytes = 1'000'000});
}

const std::vector<std::string>& hard_texts() {
  static const std::vector<std::string> texts = {
      "",
      " ",
      "   leading and   inner and trailing   ",
      "line\nline\n\n\nline\r\n\ttab\t",
      "\xE2\x96\x81 is the mark of a space, \xE2\x96\x85 of the unknown",
      "<|endoftext|> <unk> <0x41> </s>",
      "日本語 🙂 naïve \xEF\xBF\xBD e\xCC\x81",
      std::string("nul\0inside", 10),
      "broken \xFF\xFE \xC3 \xE2\x82 bytes \xED\xA0\x80",
      "3.14159 2024 00",
  };
  return texts;
}

TEST(ByteTokenizer, IdsAreBytes) {
  const auto tokenizer = make_byte_tokenizer();
  EXPECT_EQ(tokenizer->vocabulary_size(), 257);
  EXPECT_EQ(tokenizer->end_of_document(), 256u);
  EXPECT_EQ(tokenizer->encode("A\xFF"), (std::vector<uint32_t>{65, 255}));
  for (const std::string& text : hard_texts()) EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  EXPECT_EQ(load_tokenizer(tokenizer->serialized(), "test")->fingerprint(), tokenizer->fingerprint());
  EXPECT_THROW(tokenizer->piece_bytes(257), Error);
  EXPECT_EQ(tokenizer->piece_bytes(256), "");
}

TEST(SentencePieceTokenizer, RoundTripIsExact) {
  const auto tokenizer = trained(320);
  EXPECT_EQ(tokenizer->vocabulary_size(), 320);
  for (const std::string& text : hard_texts()) {
    const auto ids = tokenizer->encode(text);
    EXPECT_EQ(tokenizer->decode(ids), text);
    for (const uint32_t id : ids) {
      EXPECT_LT(id, 320u);
      EXPECT_NE(id, tokenizer->end_of_document()) << text;
    }
  }
  const std::string text = sample_text(20);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  EXPECT_LT(tokenizer->encode(text).size(), text.size() * 6 / 10);
}

TEST(SentencePieceTokenizer, NewlineIsAnOrdinaryPiece) {
  const auto tokenizer = trained(320);
  const auto ids = tokenizer->encode("\n");
  ASSERT_EQ(ids.size(), 1u);
  // The byte piece of the newline stands with the other 255 behind the two marks.
  EXPECT_NE(ids[0], 2u + 10u);
  EXPECT_EQ(tokenizer->piece_bytes(2 + 10), "\n");
}

TEST(SentencePieceTokenizer, WordCacheEqualsTheLibraryOnWholeText) {
  const auto tokenizer = trained(320);
  const std::string model = tokenizer->serialized();
  sentencepiece::SentencePieceProcessor processor;
  ASSERT_TRUE(processor.LoadFromSerializedProto(std::string_view(model).substr(model.find('\n') + 1)).ok());
  for (const std::string& text :
       {sample_text(5), std::string("  two  spaces   three\n \n  x"), std::string(" a b  c ")}) {
    std::vector<int> expected;
    ASSERT_TRUE(processor.Encode(text, &expected).ok());
    EXPECT_EQ(tokenizer->encode(text), std::vector<uint32_t>(expected.begin(), expected.end()));
  }
}

TEST(SentencePieceTokenizer, ReloadKeepsTheFingerprint) {
  const auto tokenizer = trained(300);
  const auto again = load_tokenizer(tokenizer->serialized(), "test");
  EXPECT_EQ(again->fingerprint(), tokenizer->fingerprint());
  EXPECT_EQ(again->kind(), "sentencepiece");
  EXPECT_EQ(trained(300)->serialized(), tokenizer->serialized());
  EXPECT_NE(trained(301)->fingerprint(), tokenizer->fingerprint());
  EXPECT_NE(make_byte_tokenizer()->fingerprint(), tokenizer->fingerprint());
}

TEST(SentencePieceTokenizer, WrongVocabularySizesNameTheLimits) {
  try {
    trained(5000);
    FAIL() << "a vocabulary of 5000 was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("supports at most"), std::string::npos) << error.what();
    // The size in the hint works.
    const std::string hint = error.hint();
    const int64_t largest = std::stoll(hint.substr(hint.find("vocabulary_size ") + 16));
    EXPECT_EQ(trained(largest)->vocabulary_size(), largest);
    EXPECT_THROW(trained(largest + 1), Error);
  }
  try {
    trained(270);
    FAIL() << "a vocabulary of 270 was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("too small"), std::string::npos) << error.what();
    const std::string hint = error.hint();
    const int64_t smallest = std::stoll(hint.substr(hint.find("vocabulary_size ") + 16));
    EXPECT_EQ(trained(smallest)->vocabulary_size(), smallest);
    EXPECT_THROW(trained(smallest - 1), Error);
  }
}

TEST(SentencePieceTokenizer, LongParagraphsAndRefusedCharactersStillTrain) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "weaving looms \xE2\x96\x81\xE2\x96\x85 all day ";  // 120 kB without a newline
  const std::string_view texts[] = {text};
  const auto tokenizer = train_sentencepiece(texts, {.vocabulary_size = 290, .training_bytes = 1'000'000});
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  std::set<std::string_view> pieces;
  for (uint32_t id = 0; id < 290; ++id) pieces.insert(tokenizer->piece_bytes(id));
  EXPECT_TRUE(pieces.contains(" looms") || pieces.contains(" loom"));
}

TEST(LoadTokenizer, RefusesForeignAndDamagedBytes) {
  EXPECT_THROW(load_tokenizer("", "file"), Error);
  EXPECT_THROW(load_tokenizer("heddle tokenizer 9 bytes\n", "file"), Error);
  EXPECT_THROW(load_tokenizer("heddle tokenizer 1 sentencepiece\ngarbage", "file"), Error);
}

}  // namespace
}  // namespace heddle
