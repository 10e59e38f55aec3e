#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>

#include "data/loader.h"
#include "data/prefetcher.h"
#include "support/error.h"
#include "temporary_folder.h"

namespace heddle {
namespace {

using data::kIgnoredTarget;

/// Documents of single letters "a", "bc", ... as byte tokens; validation "xyz".
TokenStore store_of(const TemporaryFolder& folder, const std::vector<std::string>& train,
                    const std::string& validation) {
  const auto tokenizer = make_byte_tokenizer();
  StoreContent content;
  for (const std::string& text : train) content.part(Part::kTrain).add(*tokenizer, text);
  if (!validation.empty()) content.part(Part::kValidation).add(*tokenizer, validation);
  write_token_store(folder.path("s.h5"), *tokenizer, content);
  return TokenStore::open(folder.path("s.h5"), true);
}

TEST(Loader, WindowsOverlapByOneToken) {
  const TemporaryFolder folder;
  const TokenStore store = store_of(folder, {"abcdefgh"}, "");  // 9 tokens
  const Loader loader(store, {.sequence_length = 4, .global_batch = 2});
  EXPECT_EQ(loader.samples(), 2);
  Batch batch = loader.fetch(0, 0, 2);
  EXPECT_EQ(batch.rows, 2);
  for (int64_t row = 0; row < 2; ++row) {
    const auto at = static_cast<size_t>(row * 4);
    const bool first = batch.samples[static_cast<size_t>(row)] == 0;
    EXPECT_EQ(batch.inputs[at], first ? 'a' : 'e');
    EXPECT_EQ(batch.targets[at], first ? 'b' : 'f');
    EXPECT_EQ(batch.targets[at + 3], first ? 'e' : 256);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(batch.positions[at + i], static_cast<int32_t>(i));
      EXPECT_EQ(batch.document_start[at + i], 0);
    }
  }
  EXPECT_EQ(std::set<int64_t>(batch.samples.begin(), batch.samples.end()), (std::set<int64_t>{0, 1}));
}

TEST(Loader, DocumentMaskRestartsPositionsAndIgnoresTheNextDocument) {
  const TemporaryFolder folder;
  const TokenStore store = store_of(folder, {"ab", "c", "def"}, "");  // a b $ c $ d e f $
  const std::vector<int32_t> tokens = {'a', 'b', 256, 'c', 256, 'd', 'e', 'f', 256};
  const Loader masked(store, {.sequence_length = 8, .global_batch = 1, .document_mask = true});
  const Batch batch = masked.fetch(0, 0, 1);
  EXPECT_EQ(batch.inputs, std::vector<int32_t>(tokens.begin(), tokens.end() - 1));
  EXPECT_EQ(batch.targets, (std::vector<int32_t>{'b', 256, kIgnoredTarget, 256, kIgnoredTarget, 'e', 'f', 256}));
  EXPECT_EQ(batch.positions, (std::vector<int32_t>{0, 1, 2, 0, 1, 0, 1, 2}));
  EXPECT_EQ(batch.document_start, (std::vector<int32_t>{0, 0, 0, 3, 3, 5, 5, 5}));
  EXPECT_EQ(batch.counted_targets(), 6);

  const Loader plain(store, {.sequence_length = 8, .global_batch = 1});
  EXPECT_EQ(plain.fetch(0, 0, 1).targets, std::vector<int32_t>(tokens.begin() + 1, tokens.end()));
}

TEST(Loader, EveryEpochHasEverySampleOnceWhateverTheSplitOverRanks) {
  const TemporaryFolder folder;
  const TokenStore store = store_of(folder, {std::string(100, 'q')}, "");  // 101 tokens, 20 samples of 5
  const Loader loader(store, {.sequence_length = 5, .global_batch = 6, .seed = 7});
  ASSERT_EQ(loader.samples(), 20);
  std::vector<int64_t> order;
  for (int64_t step = 0; step < 20; ++step) {
    const Batch whole = loader.fetch(step, 0, 6);
    std::vector<int64_t> split;
    for (int64_t first = 0; first < 6; first += 2) {
      const Batch part = loader.fetch(step, first, 2);
      split.insert(split.end(), part.samples.begin(), part.samples.end());
    }
    EXPECT_EQ(split, whole.samples);
    order.insert(order.end(), whole.samples.begin(), whole.samples.end());
  }
  for (size_t epoch = 0; epoch < 6; ++epoch) {
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(20 * epoch);
    EXPECT_EQ(std::set<int64_t>(begin, begin + 20).size(), 20u) << epoch;
  }
  EXPECT_FALSE(std::equal(order.begin(), order.begin() + 20, order.begin() + 20));
  // A loader made anew at step 7 continues as if it had run through: the position is a function of the step.
  EXPECT_EQ(Loader(store, loader.options()).fetch(7, 0, 6).samples, loader.fetch(7, 0, 6).samples);
  const Loader other(store, {.sequence_length = 5, .global_batch = 6, .seed = 8});
  EXPECT_NE(other.fetch(0, 0, 6).samples, loader.fetch(0, 0, 6).samples);
}

TEST(Loader, LittleDataRepeatsAndTooLittleIsRefused) {
  const TemporaryFolder folder;
  const TokenStore store = store_of(folder, {"abcdefgh"}, "");  // 9 tokens
  testing::internal::CaptureStderr();
  const Loader loader(store, {.sequence_length = 4, .global_batch = 5});
  EXPECT_NE(testing::internal::GetCapturedStderr().find("an epoch is shorter than a step"), std::string::npos);
  const Batch batch = loader.fetch(0, 0, 5);
  EXPECT_EQ(std::set<int64_t>(batch.samples.begin(), batch.samples.begin() + 2).size(), 2u);
  EXPECT_EQ(std::set<int64_t>(batch.samples.begin() + 2, batch.samples.begin() + 4).size(), 2u);
  EXPECT_NO_THROW(Loader(store, {.sequence_length = 8, .global_batch = 1}));
  expect_error<UsageError>([&] { Loader(store, {.sequence_length = 9, .global_batch = 1}); },
                           "has 9 train tokens, but one sample of 9 inputs needs 10");
}

TEST(Loader, ACapOnUniqueTokensRepeatsTheSameWindowsAtEverySeed) {
  const TemporaryFolder folder;
  const TokenStore store = store_of(folder, {std::string(100, 'q')}, "");  // 101 tokens, 20 samples of 5
  const auto seen = [&](uint64_t seed, int64_t unique) {
    const Loader loader(store, {.sequence_length = 5, .global_batch = 6, .seed = seed, .unique_tokens = unique});
    EXPECT_EQ(loader.samples(), unique / 5);
    std::vector<int64_t> order;
    for (int64_t step = 0; step < 7; ++step) {
      const Batch batch = loader.fetch(step, 0, 6);
      order.insert(order.end(), batch.samples.begin(), batch.samples.end());
    }
    return order;
  };
  const std::vector<int64_t> first = seen(7, 34), second = seen(8, 34);  // six samples, an epoch a step
  const std::set<int64_t> windows(first.begin(), first.begin() + 6);
  ASSERT_EQ(windows.size(), 6U);
  EXPECT_GT(*windows.rbegin(), 6) << "from all of the part, not from its start";
  for (size_t step = 1; step < 7; ++step) {
    const auto begin = first.begin() + static_cast<std::ptrdiff_t>(6 * step);
    EXPECT_EQ(std::set<int64_t>(begin, begin + 6), windows) << "step " << step;
  }
  EXPECT_EQ(std::set<int64_t>(second.begin(), second.end()), windows);
  EXPECT_NE(first, second) << "in another order";
  // A larger cap keeps the windows of a smaller one.
  const std::vector<int64_t> more = seen(7, 60);
  const std::set<int64_t> larger(more.begin(), more.end());
  EXPECT_EQ(larger.size(), 12U);
  for (const int64_t window : windows) EXPECT_TRUE(larger.contains(window));
  for (const int64_t unique : {4, 105})
    expect_error<UsageError>([&] { Loader(store, {.sequence_length = 5, .global_batch = 6, .unique_tokens = unique}); },
                             fmt::format("data.unique_tokens = {}", unique));
  EXPECT_NO_THROW(seen(7, 100));
}

TEST(Loader, EvaluationCoversEveryTargetOnce) {
  const TemporaryFolder folder;
  const TokenStore store = store_of(folder, {"abcdefghijklmnop"}, "stuvwxyz!?");  // 11 validation tokens
  const Loader loader(store, {.sequence_length = 4, .global_batch = 1});
  ASSERT_EQ(loader.eval_samples(Part::kValidation), 3);
  const Batch batch = loader.fetch_eval(Part::kValidation, 0, 5);
  std::vector<int32_t> targets;
  for (const int32_t target : batch.targets)
    if (target != kIgnoredTarget) targets.push_back(target);
  EXPECT_EQ(targets, (std::vector<int32_t>{'t', 'u', 'v', 'w', 'x', 'y', 'z', '!', '?', 256}));
  EXPECT_EQ(batch.samples, (std::vector<int64_t>{0, 1, 2, -1, -1}));
  EXPECT_EQ(batch.counted_targets(), 10);
  const Batch tail = loader.fetch_eval(Part::kValidation, 2, 1);
  EXPECT_EQ(tail.inputs, (std::vector<int32_t>{'!', '?', 256, 256}));
  EXPECT_EQ(tail.targets, (std::vector<int32_t>{'?', 256, kIgnoredTarget, kIgnoredTarget}));
  EXPECT_EQ(loader.eval_samples(Part::kTrain), 4);
}

TEST(Loader, EvaluationOfMissingOrTinyPartsIsRefused) {
  const TemporaryFolder folder;
  const TokenStore store = store_of(folder, {"abcdefgh"}, "");
  const Loader loader(store, {.sequence_length = 4, .global_batch = 1});
  expect_error<Error>([&] { loader.eval_samples(Part::kValidation); }, "has no validation part");
  const auto tokenizer = make_byte_tokenizer();
  StoreContent content;
  content.part(Part::kTrain).add(*tokenizer, "abcdefgh");
  content.part(Part::kValidation) = {{256}, {1}, 0};
  write_token_store(folder.path("one.h5"), *tokenizer, content);
  const TokenStore one = TokenStore::open(folder.path("one.h5"));
  expect_error<Error>([&] { Loader(one, {.sequence_length = 4, .global_batch = 1}).eval_samples(Part::kValidation); },
                      "has 1 token");
}

TEST(Prefetcher, GivesBatchesInOrder) {
  std::atomic<int64_t> fetched = 0;
  Prefetcher prefetcher(
      [&](int64_t index) {
        ++fetched;
        Batch batch;
        batch.samples = {index};
        return batch;
      },
      5);
  for (int64_t index = 5; index < 100; ++index) ASSERT_EQ(prefetcher.next().samples, (std::vector<int64_t>{index}));
  EXPECT_LE(fetched, 95 + 2);  // one ready, one in work
}

TEST(Prefetcher, ErrorsReachTheConsumerInTheirPlace) {
  Prefetcher prefetcher(
      [](int64_t index) {
        if (index == 2) fail("no batch {}", index);
        return Batch{};
      },
      0);
  EXPECT_NO_THROW(prefetcher.next());
  EXPECT_NO_THROW(prefetcher.next());
  expect_error<Error>([&] { prefetcher.next(); }, "no batch 2");
  expect_error<Error>([&] { prefetcher.next(); }, "no batch 2");
}

}  // namespace
}  // namespace heddle
