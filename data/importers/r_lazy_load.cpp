#include "data/importers/r_lazy_load.h"

#include <zlib.h>

#include <fstream>
#include <iterator>

#include "support/error.h"

namespace heddle {

namespace {

constexpr uint32_t kStringVector = 0x10;
constexpr uint32_t kOneString = 0x09;
constexpr uint32_t kLargestObject = 1u << 30;

/// Big-endian numbers and bytes of one serialized object.
class ObjectReader {
 public:
  ObjectReader(std::string_view bytes, std::string source) : bytes_(bytes), source_(std::move(source)) {}

  uint32_t number() {
    const std::string_view raw = take(4);
    uint32_t value = 0;
    for (const char c : raw) value = value << 8 | static_cast<unsigned char>(c);
    return value;
  }

  std::string_view take(size_t count) {
    if (count > bytes_.size() - at_)
      throw Error(fmt::format("{}: an R object of {} bytes ends early, at byte {}", source_, bytes_.size(), at_),
                  "the file is damaged; unpack the package again");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }

  /// True, with the strings in `strings`, if the object is a string vector.
  bool read_strings(std::vector<std::string>& strings) {
    if (take(2) != "X\n")
      throw Error(fmt::format("{}: an object is not in R's binary serialization", source_),
                  "only format X can be read");
    const uint32_t version = number();
    if (version != 2 && version != 3) fail("{}: R serialization version {}, expected 2 or 3", source_, version);
    take(8);                           // versions of R
    if (version == 3) take(number());  // name of the native encoding
    if ((number() & 0xFF) != kStringVector) return false;
    const uint32_t count = number();
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t flags = number();
      if ((flags & 0xFF) != kOneString) fail("{}: R type {} inside a string vector", source_, flags & 0xFF);
      const uint32_t length = number();
      strings.emplace_back(length == UINT32_MAX ? std::string_view() : take(length));
    }
    return true;
  }

 private:
  std::string_view bytes_;
  std::string source_;
  size_t at_ = 0;
};

}  // namespace

std::vector<std::vector<std::string>> parse_r_lazy_load(std::string_view bytes, const std::string& source) {
  std::vector<std::vector<std::string>> objects;
  for (size_t at = 0; at < bytes.size();) {
    const auto refuse = [&](const std::string& what) {
      throw Error(fmt::format("{} at byte {}: {}", source, at, what),
                  "expected an R lazy-load file compressed with zlib");
    };
    if (bytes.size() - at < 6) refuse("the file is cut off");
    uint32_t plain_bytes = 0;
    for (size_t i = 0; i < 4; ++i) plain_bytes = plain_bytes << 8 | static_cast<unsigned char>(bytes[at + i]);
    if (bytes[at + 4] == '2' || bytes[at + 4] == 'Z') refuse("the object is compressed with bzip2 or xz");
    if (plain_bytes > kLargestObject) refuse(fmt::format("an object of {} bytes", plain_bytes));

    std::string plain(plain_bytes, '\0');
    z_stream stream = {};
    if (inflateInit(&stream) != Z_OK) fail("zlib cannot start");
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + at + 4));
    stream.avail_in = static_cast<uInt>(std::min<size_t>(bytes.size() - at - 4, UINT32_MAX));
    stream.next_out = reinterpret_cast<Bytef*>(plain.data());
    stream.avail_out = plain_bytes;
    const int status = inflate(&stream, Z_FINISH);
    const size_t used = stream.total_in;
    const size_t made = stream.total_out;
    inflateEnd(&stream);
    if (status != Z_STREAM_END || made != plain_bytes)
      refuse(fmt::format("zlib status {} after {} of {} bytes", status, made, plain_bytes));

    std::vector<std::string> strings;
    if (ObjectReader(plain, source).read_strings(strings)) objects.push_back(std::move(strings));
    at += 4 + used;
  }
  return objects;
}

std::vector<std::vector<std::string>> read_r_lazy_load(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (!stream) throw Error(fmt::format("cannot read '{}'", path), "check that it exists and may be read");
  return parse_r_lazy_load(bytes, path);
}

}  // namespace heddle
