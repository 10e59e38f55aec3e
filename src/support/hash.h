// Content hashes: XXH3 of bytes, as fixed-width hexadecimal text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace heddle {

uint64_t hash64(std::string_view bytes);
std::string hash128_hex(std::string_view bytes);  ///< 32 hexadecimal digits

/// Checksum of a part of an array of 32-bit elements that does not depend on who holds which part: the sums (modulo
/// 2^64) over parts that cover an array without overlap add up to the sum of the whole. `first` is the index of the
/// part's first element in the array.
uint64_t position_checksum(uint64_t first, const void* elements, size_t count);

/// A 128-bit hash over a stream of pieces; equal to hash128_hex of their concatenation.
class StreamHash {
 public:
  StreamHash();
  ~StreamHash();
  StreamHash(StreamHash&&) noexcept;
  StreamHash& operator=(StreamHash&&) noexcept;
  void update(const void* data, size_t bytes);
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heddle
