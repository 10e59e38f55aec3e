// Random draws as functions of (seed, purpose, stream, index): nothing to save, nothing that differs between ranks.
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3") from Random123.
#pragma once

#include <array>
#include <cstdint>

namespace heddle {

/// What a draw is for. Numbers are part of the meaning of a seed: never reuse or renumber.
enum class Draw : uint32_t {
  kInitialisation = 1,  ///< stream: hash of the tensor's name, index: global element
  kShuffle = 2,         ///< stream: epoch, index: round of the permutation
  kSampling = 3,        ///< text generation; stream: 0, index: position
  kTest = 4,
  kLoops = 5,        ///< loops of a step; stream: 0 and 1, index: step
  kNoise = 6,        ///< initial state; stream: 0 training, 1 evaluation, 2 generation, index: element
  kPermutation = 7,  ///< probe: labels without a meaning; stream: 0 tokens, 1 loops, index: round of the permutation
};

/// Four independent 32-bit words of the given draw.
std::array<uint32_t, 4> random_words(uint64_t seed, Draw purpose, uint32_t stream, uint64_t index);

/// Uniform in [0, 1), 53 bits.
double random_uniform(uint64_t seed, Draw purpose, uint32_t stream, uint64_t index);

/// Standard normal (Box-Muller in double).
double random_normal(uint64_t seed, Draw purpose, uint32_t stream, uint64_t index);

/// A pseudo-random permutation of [0, size) that is a function of (seed, stream): the image of `index`.
/// Balanced Feistel network on the next even power of two with cycle walking; O(1) memory.
uint64_t random_permutation(uint64_t seed, uint32_t stream, uint64_t size, uint64_t index);

}  // namespace heddle
