#include "analysis/event_file.h"

#include <bit>
#include <cerrno>
#include <cstring>

#include "analysis/crc32c.h"
#include "support/error.h"

namespace heddle {

namespace {

// Fields of the messages that are written.
constexpr int kEventTime = 1, kEventStep = 2, kEventVersion = 3, kEventSummary = 5, kEventSession = 7;
constexpr int kSessionStatus = 1, kSessionStart = 1;
constexpr int kSummaryValue = 1;
constexpr int kValueTag = 1, kValueScalar = 2, kValueHistogram = 5;
constexpr int kHistogramMin = 1, kHistogramMax = 2, kHistogramCount = 3, kHistogramSum = 4, kHistogramSquares = 5,
              kHistogramLimits = 6, kHistogramBuckets = 7;
// Types of protocol buffers on the wire.
constexpr uint64_t kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;

template <typename Unsigned>
void put_fixed(std::string& out, Unsigned value) {
  for (size_t byte = 0; byte < sizeof(Unsigned); ++byte) out += static_cast<char>((value >> (8 * byte)) & 0xFF);
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  out += static_cast<char>(value);
}

void put_key(std::string& out, int field, uint64_t type) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | type);
}

void put(std::string& out, int field, double value) {
  put_key(out, field, kFixed64);
  put_fixed(out, std::bit_cast<uint64_t>(value));
}
void put(std::string& out, int field, float value) {
  put_key(out, field, kFixed32);
  put_fixed(out, std::bit_cast<uint32_t>(value));
}
void put(std::string& out, int field, int64_t value) {
  put_key(out, field, kVarint);
  put_varint(out, static_cast<uint64_t>(value));
}
void put(std::string& out, int field, std::string_view bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}
void put(std::string& out, int field, const std::vector<double>& values) {
  std::string packed;
  for (const double value : values) put_fixed(packed, std::bit_cast<uint64_t>(value));
  put(out, field, std::string_view(packed));
}

uint32_t masked(uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

std::string histogram(const EventHistogram& h) {
  double count = 0, sum = 0, squares = 0;
  for (size_t i = 0; i < h.counts.size(); ++i) {
    // Of the middles of the buckets; the first begins at the smallest value.
    const double middle = (h.limits[i] + (i == 0 ? h.min : h.limits[i - 1])) / 2;
    count += h.counts[i];
    sum += h.counts[i] * middle;
    squares += h.counts[i] * middle * middle;
  }
  std::string out;
  put(out, kHistogramMin, h.min);
  put(out, kHistogramMax, h.max);
  put(out, kHistogramCount, count);
  put(out, kHistogramSum, sum);
  put(out, kHistogramSquares, squares);
  put(out, kHistogramLimits, h.limits);
  put(out, kHistogramBuckets, h.counts);
  return out;
}

}  // namespace

std::string tfrecord(std::string_view payload) {
  std::string out;
  put_fixed(out, static_cast<uint64_t>(payload.size()));
  put_fixed(out, masked(crc32c(out)));
  out += payload;
  put_fixed(out, masked(crc32c(payload)));
  return out;
}

std::string version_event(double wall_time) {
  std::string out;
  put(out, kEventTime, wall_time);
  put(out, kEventVersion, std::string_view("brain.Event:2"));
  return out;
}

std::string start_event(double wall_time, int64_t step) {
  std::string session, out;
  put(session, kSessionStatus, int64_t{kSessionStart});
  put(out, kEventTime, wall_time);
  put(out, kEventStep, step);
  put(out, kEventSession, std::string_view(session));
  return out;
}

std::string values_event(double wall_time, int64_t step, const EventValues& values) {
  std::string summary, out;
  const auto add = [&](const std::string& tag, auto content) {
    std::string value;
    put(value, kValueTag, std::string_view(tag));
    content(value);
    put(summary, kSummaryValue, std::string_view(value));
  };
  for (const auto& [tag, scalar] : values.scalars)
    add(tag, [&, number = static_cast<float>(scalar)](std::string& value) { put(value, kValueScalar, number); });
  for (const auto& [tag, h] : values.histograms)
    add(tag, [&h](std::string& value) { put(value, kValueHistogram, std::string_view(histogram(h))); });
  put(out, kEventTime, wall_time);
  put(out, kEventStep, step);
  put(out, kEventSummary, std::string_view(summary));
  return out;
}

EventFile::EventFile(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "wbx")) {
  if (file_ == nullptr) fail("the event file '{}' cannot be created: {}", path, std::strerror(errno));
}

void EventFile::append(std::string_view event) {
  const std::string record = tfrecord(event);
  if (std::fwrite(record.data(), 1, record.size(), file_.get()) != record.size() || std::fflush(file_.get()) != 0)
    throw Error(fmt::format("the event file '{}' cannot be written: {}", path_, std::strerror(errno)),
                "make room and resume with --run.resume true, or with --run.tensorboard false");
}

}  // namespace heddle
