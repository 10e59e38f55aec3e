#include "support/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

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
