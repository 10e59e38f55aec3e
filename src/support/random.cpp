#include "support/random.h"

#include <Random123/philox.h>

#include <bit>
#include <cmath>
#include <numbers>

#include "support/error.h"

namespace heddle {

std::array<uint32_t, 4> random_words(uint64_t seed, Draw purpose, uint32_t stream, uint64_t index) {
  const r123::Philox4x32::key_type key = {{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}};
  const r123::Philox4x32::ctr_type counter = {
      {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), stream, static_cast<uint32_t>(purpose)}};
  const auto words = r123::Philox4x32()(counter, key);
  return {words[0], words[1], words[2], words[3]};
}

namespace {
double unit_interval(uint32_t high, uint32_t low) {
  const uint64_t bits = (static_cast<uint64_t>(high) << 32 | low) >> 11;
  return static_cast<double>(bits) * 0x1.0p-53;
}
}  // namespace

double random_uniform(uint64_t seed, Draw purpose, uint32_t stream, uint64_t index) {
  const auto words = random_words(seed, purpose, stream, index);
  return unit_interval(words[0], words[1]);
}

double random_normal(uint64_t seed, Draw purpose, uint32_t stream, uint64_t index) {
  const auto words = random_words(seed, purpose, stream, index);
  const double radius = std::sqrt(-2.0 * std::log1p(-unit_interval(words[0], words[1])));
  return radius * std::cos(2.0 * std::numbers::pi * unit_interval(words[2], words[3]));
}

uint64_t random_permutation(uint64_t seed, uint32_t stream, uint64_t size, uint64_t index) {
  require(index < size, "random_permutation: index {} outside of {}", index, size);
  if (size == 1) return 0;
  const int half_bits = (static_cast<int>(std::bit_width(size - 1)) + 1) / 2;
  const uint64_t half_mask = (uint64_t{1} << half_bits) - 1;
  constexpr uint64_t kRounds = 6;
  uint64_t value = index;
  do {
    uint64_t left = value >> half_bits;
    uint64_t right = value & half_mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const auto words = random_words(seed, Draw::kShuffle, stream, right << 3 | round);
      const uint64_t mixed = left ^ ((static_cast<uint64_t>(words[1]) << 32 | words[0]) & half_mask);
      left = right;
      right = mixed;
    }
    value = left << half_bits | right;
  } while (value >= size);
  return value;
}

}  // namespace heddle
