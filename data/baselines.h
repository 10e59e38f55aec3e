// What simple models and compressors reach on the validation text, in bits per byte of text: a trained model is worth
// its time if it beats them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/token_store.h"

namespace heddle {

/// Bits that a Witten-Bell smoothed bigram needs for `test`, symbol by symbol (Witten and Bell 1991, method C):
///   p(w | h) = (c(h, w) + t(h) p(w)) / (c(h) + t(h)),   p(w) = (c(w) + t / V) / (n + t)
/// with c the counts in `train`, t(h) the number of different symbols seen behind h, t of different symbols, n of all.
/// The symbol before the first one, of train and test, is `start`. Symbols lie in [0, vocabulary_size).
double bigram_bits(std::span<const uint32_t> train, std::span<const uint32_t> test, int64_t vocabulary_size,
                   uint32_t start);

/// Bytes of `text` compressed by liblzma in the .xz format, preset 6, with a dictionary that spans the whole text.
int64_t xz_bytes(std::string_view text);

struct Baselines {
  Part part = Part::kValidation;
  double token_bigram = 0;  ///< bits per byte, end marks included
  double byte_bigram = 0;   ///< the same over bytes and end marks
  double xz = 0;            ///< the text alone
  double xz_primed = 0;     ///< size of train and text together, less the size of train
  int64_t text_bytes = 0;   ///< of the part
};

/// Baselines of the held-out parts that the store has, after the train part. xz sees at most the last 32 MiB of the
/// train text; it takes most of the time (some 10 seconds for 8 MB), so its runs share the cores. Throws Error without
/// a validation part.
std::vector<Baselines> measure_baselines(const TokenStore& store);

}  // namespace heddle
