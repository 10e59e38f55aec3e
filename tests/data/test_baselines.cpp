#include <gtest/gtest.h>

#include <cmath>

#include "data/baselines.h"
#include "temporary_folder.h"

namespace heddle {
namespace {

TEST(Bigram, HandComputed) {
  // Vocabulary of 4 with start 3; train: 0 1 0 0. Pairs: (3,0) (0,1) (1,0) (0,0).
  // Unigram: n = 4, t = 2, p(0) = (3 + 2/4) / 6 = 7/12, p(1) = (1 + 1/2) / 6 = 1/4, p(2) = p(3) = (1/2) / 6 = 1/12.
  const uint32_t train[] = {0, 1, 0, 0};
  const auto bits = [&](std::vector<uint32_t> test) { return bigram_bits(train, test, 4, 3); };
  // p(0 | start) = (1 + 1 * 7/12) / (1 + 1) = 19/24
  EXPECT_NEAR(bits({0}), -std::log2(19.0 / 24), 1e-12);
  // p(1 | 0) = (1 + 2 * 1/4) / (2 + 2) = 3/8
  EXPECT_NEAR(bits({0, 1}) - bits({0}), -std::log2(3.0 / 8), 1e-12);
  // p(2 | 0) = (0 + 2 * 1/12) / 4 = 1/24; 2 was never a history: p(1 | 2) = p(1) = 1/4
  EXPECT_NEAR(bits({0, 2, 1}) - bits({0}), -std::log2(1.0 / 24) - std::log2(1.0 / 4), 1e-12);
  EXPECT_EQ(bits({}), 0);
}

TEST(Bigram, ProbabilitiesSumToOne) {
  const uint32_t train[] = {0, 1, 0, 0, 2, 1};
  for (uint32_t history = 0; history < 5; ++history) {
    double sum = 0;
    for (uint32_t symbol = 0; symbol < 5; ++symbol) {
      const uint32_t prefix[] = {history};
      const uint32_t pair[] = {history, symbol};
      sum += std::exp2(-(bigram_bits(train, pair, 5, 4) - bigram_bits(train, prefix, 5, 4)));
    }
    EXPECT_NEAR(sum, 1.0, 1e-12) << history;
  }
}

TEST(Bigram, UntrainedIsUniform) {
  const uint32_t test[] = {1, 2, 3};
  EXPECT_NEAR(bigram_bits({}, test, 8, 0), 9.0, 1e-12);
}

TEST(Xz, SizesOfKnownInputs) {
  EXPECT_EQ(xz_bytes(""), 32);  // header 12, empty index 8, footer 12
  // A block holds a header, LZMA2 chunks and a CRC64; the sizes of the xz program's "-6" for these inputs.
  EXPECT_EQ(xz_bytes("hello hello hello\n"), 72);
  EXPECT_LT(xz_bytes(std::string(1'000'000, 'a')), 300);
}

TEST(Baselines, PrimedCompressionKnowsTheTrainText) {
  const TemporaryFolder folder;
  const auto tokenizer = make_byte_tokenizer();
  std::string text;
  uint32_t state = 9;
  for (int i = 0; i < 20000; ++i) {
    state = state * 1664525u + 1013904223u;
    text += static_cast<char>('a' + (state >> 24) % 26);
  }
  StoreContent content;
  content.part(Part::kTrain).add(*tokenizer, text);
  content.part(Part::kValidation).add(*tokenizer, text.substr(5000, 4000));
  write_token_store(folder.path("s.h5"), *tokenizer, content);
  const auto all = measure_baselines(TokenStore::open(folder.path("s.h5")));
  ASSERT_EQ(all.size(), 1u);
  const Baselines& baselines = all[0];
  EXPECT_EQ(baselines.part, Part::kValidation);
  EXPECT_EQ(baselines.text_bytes, 4000);
  EXPECT_GT(baselines.xz, 4.6);         // log2(26) = 4.70 bits of entropy
  EXPECT_LT(baselines.xz_primed, 0.1);  // a copy of train text costs nearly nothing
  EXPECT_NEAR(baselines.byte_bigram, 4.7, 0.15);
  EXPECT_NEAR(baselines.token_bigram, baselines.byte_bigram, 1e-12);  // with byte tokens they are the same model
}

}  // namespace
}  // namespace heddle
