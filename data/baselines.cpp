#include "data/baselines.h"

#include <lzma.h>

#include <algorithm>
#include <cmath>
#include <future>

#include "support/error.h"

namespace heddle {

namespace {

constexpr size_t kPrimingBytes = size_t{32} << 20;

std::vector<uint32_t> tokens_of(const TokenStore& store, Part part) {
  return store.read_tokens(part, 0, store.tokens(part));
}

/// The tokens as bytes, with the end mark as symbol 256.
std::vector<uint32_t> as_bytes(std::span<const uint32_t> tokens, const Tokenizer& tokenizer) {
  std::vector<uint32_t> bytes;
  for (const uint32_t id : tokens) {
    for (const char c : tokenizer.piece_bytes(id)) bytes.push_back(static_cast<unsigned char>(c));
    if (id == tokenizer.end_of_document()) bytes.push_back(256);
  }
  return bytes;
}

/// Sorted pairs (history, symbol) with their counts.
class PairCounts {
 public:
  PairCounts(std::span<const uint32_t> symbols, uint32_t start, int64_t vocabulary_size)
      : total_(static_cast<size_t>(vocabulary_size)), different_(static_cast<size_t>(vocabulary_size)) {
    std::vector<uint64_t> pairs;
    pairs.reserve(symbols.size());
    uint32_t history = start;
    for (const uint32_t symbol : symbols) {
      pairs.push_back(uint64_t{history} << 32 | symbol);
      history = symbol;
    }
    std::sort(pairs.begin(), pairs.end());
    for (size_t i = 0; i < pairs.size();) {
      size_t j = i;
      while (j < pairs.size() && pairs[j] == pairs[i]) ++j;
      keys_.push_back(pairs[i]);
      counts_.push_back(static_cast<int64_t>(j - i));
      total_[pairs[i] >> 32] += static_cast<int64_t>(j - i);
      ++different_[pairs[i] >> 32];
      i = j;
    }
  }
  int64_t count(uint32_t history, uint32_t symbol) const {
    const uint64_t key = uint64_t{history} << 32 | symbol;
    const auto found = std::lower_bound(keys_.begin(), keys_.end(), key);
    return found != keys_.end() && *found == key ? counts_[static_cast<size_t>(found - keys_.begin())] : 0;
  }
  int64_t total(uint32_t history) const { return total_[history]; }
  int64_t different(uint32_t history) const { return different_[history]; }

 private:
  std::vector<uint64_t> keys_;
  std::vector<int64_t> counts_, total_, different_;
};

}  // namespace

double bigram_bits(std::span<const uint32_t> train, std::span<const uint32_t> test, int64_t vocabulary_size,
                   uint32_t start) {
  std::vector<int64_t> unigram(static_cast<size_t>(vocabulary_size));
  for (const uint32_t symbol : train) ++unigram.at(symbol);
  const auto different = static_cast<double>(vocabulary_size - std::count(unigram.begin(), unigram.end(), int64_t{0}));
  const auto n = static_cast<double>(train.size());
  const PairCounts pairs(train, start, vocabulary_size);
  double bits = 0;
  uint32_t history = start;
  for (const uint32_t symbol : test) {
    const double uniform = 1.0 / static_cast<double>(vocabulary_size);
    const double seen = static_cast<double>(unigram.at(symbol));
    double probability = n > 0 ? (seen + different * uniform) / (n + different) : uniform;
    if (const int64_t total = pairs.total(history); total > 0) {
      const auto types = static_cast<double>(pairs.different(history));
      probability = (static_cast<double>(pairs.count(history, symbol)) + types * probability) /
                    (static_cast<double>(total) + types);
    }
    bits -= std::log2(probability);
    history = symbol;
  }
  return bits;
}

int64_t xz_bytes(std::string_view text) {
  lzma_options_lzma options;
  if (lzma_lzma_preset(&options, 6)) throw Error("liblzma does not know preset 6");
  uint64_t dictionary = options.dict_size;
  while (dictionary < text.size()) dictionary *= 2;
  options.dict_size = static_cast<uint32_t>(std::min<uint64_t>(dictionary, uint64_t{1} << 30));
  const lzma_filter filters[] = {{LZMA_FILTER_LZMA2, &options}, {LZMA_VLI_UNKNOWN, nullptr}};
  std::vector<uint8_t> output(lzma_stream_buffer_bound(text.size()));
  size_t bytes = 0;
  const lzma_ret status = lzma_stream_buffer_encode(const_cast<lzma_filter*>(filters), LZMA_CHECK_CRC64, nullptr,
                                                    reinterpret_cast<const uint8_t*>(text.data()), text.size(),
                                                    output.data(), &bytes, output.size());
  if (status != LZMA_OK)
    throw Error(fmt::format("liblzma failed with status {} on {} bytes", static_cast<int>(status), text.size()),
                "a dictionary of that size needs about 11 times as much memory");
  return static_cast<int64_t>(bytes);
}

std::vector<Baselines> measure_baselines(const TokenStore& store) {
  store.require_part(Part::kValidation);
  const auto tokenizer = store.tokenizer();
  const std::vector<uint32_t> train = tokens_of(store, Part::kTrain);
  const std::vector<uint32_t> train_bytes = as_bytes(train, *tokenizer);
  std::string train_text = tokenizer->decode(train);
  if (train_text.size() > kPrimingBytes) train_text.erase(0, train_text.size() - kPrimingBytes);
  const auto start = [](std::string text) {
    return std::async(std::launch::async, [content = std::move(text)] { return xz_bytes(content); });
  };
  auto train_size = start(train_text);
  std::vector<std::future<int64_t>> sizes_together;
  std::vector<Baselines> results;
  for (const Part part : {Part::kValidation, Part::kOther}) {
    if (!store.has(part)) continue;
    const std::vector<uint32_t> test = tokens_of(store, part);
    const std::string text = tokenizer->decode(test);
    sizes_together.push_back(start(train_text + text));
    const auto per_byte = [&](double bits) { return bits / static_cast<double>(text.size()); };
    Baselines result;
    result.part = part;
    result.text_bytes = store.text_bytes(part);
    result.token_bigram = per_byte(bigram_bits(train, test, store.vocabulary_size(), store.end_of_document()));
    result.byte_bigram = per_byte(bigram_bits(train_bytes, as_bytes(test, *tokenizer), 257, 256));
    result.xz = per_byte(8.0 * static_cast<double>(xz_bytes(text)));
    results.push_back(result);
  }
  const int64_t alone = train_size.get();
  for (size_t i = 0; i < results.size(); ++i)
    results[i].xz_primed =
        8.0 * static_cast<double>(sizes_together[i].get() - alone) / static_cast<double>(results[i].text_bytes);
  return results;
}

}  // namespace heddle
