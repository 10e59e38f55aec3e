#include "support/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cstring>

namespace heddle {

namespace {
std::string to_hex(XXH128_hash_t hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}
}  // namespace

uint64_t hash64(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string hash128_hex(std::string_view bytes) {
  return to_hex(XXH3_128bits(bytes.data(), bytes.size()));
}

uint64_t position_checksum(uint64_t first, const void* elements, size_t count) {
  const auto* bytes = static_cast<const char*>(elements);
  uint64_t sum = 0;
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, bytes + 4 * i, 4);
    // A mixer of (index, bits) whose results for different pairs have nothing to do with each other.
    uint64_t x = (first + i) * 0x9E3779B97F4A7C15U + bits * 0xC2B2AE3D27D4EB4FU + 0x165667B19E3779F9U;
    x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93U;
    x = (x ^ (x >> 29)) * 0x94D049BB133111EBU;
    sum += x ^ (x >> 32);
  }
  return sum;
}

struct StreamHash::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() { XXH3_128bits_reset(xxh); }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

StreamHash::StreamHash() : state_(std::make_unique<State>()) {}
StreamHash::~StreamHash() = default;
StreamHash::StreamHash(StreamHash&&) noexcept = default;
StreamHash& StreamHash::operator=(StreamHash&&) noexcept = default;
void StreamHash::update(const void* data, size_t bytes) {
  XXH3_128bits_update(state_->xxh, data, bytes);
}
std::string StreamHash::hex() const {
  return to_hex(XXH3_128bits_digest(state_->xxh));
}

}  // namespace heddle
