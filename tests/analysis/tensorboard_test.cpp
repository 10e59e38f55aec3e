// Event files against answers that are known or made by hand.
#include "analysis/tensorboard_log.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "analysis/crc32c.h"
#include "analysis/planted_log.h"
#include "support/atomic_file.h"
#include "support/error.h"

namespace heddle {

namespace {

namespace fs = std::filesystem;

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

/// A folder that ends with the test.
class Events : public testing::Test {
 protected:
  Events() { fs::remove_all(folder_); }
  ~Events() override { fs::remove_all(folder_); }

  /// Content of all files, in the order of their names.
  std::vector<std::string> contents() const {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(folder_)) paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    std::vector<std::string> all;
    for (const fs::path& path : paths) all.push_back(read_text_file(path.string()));
    return all;
  }

  std::string folder_ = (fs::path(testing::TempDir()) / fmt::format("heddle_events_{}", getpid())).string();
};

/// The payloads of a file's records; a test failure where a length does not fit.
std::vector<std::string> payloads(const std::string& file) {
  std::vector<std::string> all;
  for (size_t at = 0; at < file.size();) {
    uint64_t size = 0;
    std::memcpy(&size, file.data() + at, sizeof size);
    all.push_back(file.substr(at + 12, size));
    EXPECT_EQ(hex(file.substr(at, 16 + size)), hex(tfrecord(all.back())));
    at += 16 + size;
  }
  return all;
}

bool holds(const std::string& payload, const std::string& tag) {
  return payload.find(tag) != std::string::npos;
}

}  // namespace

TEST(Crc32c, HasTheKnownAnswers) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);    // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);  // RFC 3720, B.4
}

TEST(EventFile, AScalarHasTheseBytes) {
  EventValues values;
  values.scalars.emplace_back("a", 1.5);
  // time 1.0 as field 1; step 300 as field 2; summary { value { tag "a", simple_value 1.5 } } as field 5.
  EXPECT_EQ(hex(values_event(1.0, 300, values)),
            "09000000000000f03f"
            "10ac02"
            "2a0a"
            "0a08"
            "0a0161"
            "150000c03f");
}

TEST(EventFile, AStartHasTheseBytes) {
  EXPECT_EQ(hex(start_event(1.0, 7)),
            "09000000000000f03f"
            "1007"
            "3a020801");
  EXPECT_EQ(hex(version_event(1.0)),
            "09000000000000f03f"
            "1a0d" +
                hex("brain.Event:2"));
}

TEST(EventFile, AHistogramHasTheseBytes) {
  EventValues values;
  values.histograms.push_back({"h", {0, 2, {2}, {3}}});
  const std::string one = "000000000000f03f", two = "0000000000000040", three = "0000000000000840";
  EXPECT_EQ(hex(values_event(1.0, 1, values)), "09" + one +
                                                   "1001"
                                                   "2a48"
                                                   "0a46"
                                                   "0a0168"
                                                   "2a41"
                                                   "09"
                                                   "0000000000000000"
                                                   "11" +
                                                   two + "19" + three + "21" + three + "29" + three + "3208" + two +
                                                   "3a08" + three);
}

TEST(EventFile, ARecordHasMaskedChecksums) {
  // The length 9 as eight bytes, its checksum, the text and the checksum of the text: 0xE3069283 turned right by 15
  // bits, plus 0xA282EAD8.
  const std::string record = tfrecord("123456789");
  EXPECT_EQ(hex(record.substr(0, 8)), "0900000000000000");
  EXPECT_EQ(record.substr(12, 9), "123456789");
  EXPECT_EQ(hex(record.substr(21)),
            "e5b0"
            "8ac7");
  EXPECT_EQ(record.size(), 25u);
}

TEST_F(Events, ASessionStartsBehindWhatIsDone) {
  const RunLogHeader h = planted_header();
  { TensorboardLog(folder_, h, 0).append(planted_step(h, 1)); }
  TensorboardLog(folder_, h, 40).append(planted_step(h, 41));
  const std::vector<std::string> files = contents();
  ASSERT_EQ(files.size(), 2u) << "a session never writes into the file of another";
  const std::vector<std::string> first = payloads(files[0]), second = payloads(files[1]);
  ASSERT_EQ(first.size(), 3u);
  EXPECT_TRUE(holds(first[0], "brain.Event:2"));
  EXPECT_EQ(hex(first[1].substr(9)), "10013a020801");
  EXPECT_EQ(hex(second[1].substr(9)), "10293a020801");
  EXPECT_TRUE(holds(first[2], "train/loss"));
}

TEST_F(Events, LoopsAndLayersComeWithLooks) {
  const RunLogHeader h = planted_header();
  {
    TensorboardLog log(folder_, h, 0);
    for (const int64_t step : {1, 2, 10}) log.append(planted_step(h, step));
    log.append(planted_look(h, 10));
    log.append(ValidationRecord{10, 2.5, 1.25, 100});
    log.append(MemoryRecord{10, {1, 2}, {3, 4}, 3, 7});
  }
  const std::vector<std::string> all = payloads(contents().at(0));
  ASSERT_EQ(all.size(), 8u);
  for (const char* tag :
       {"train/tokens_per_second", "train/bits_per_byte", "train/gradient_norm", "train/learning_rate"})
    for (const size_t step : {2, 3, 4}) EXPECT_TRUE(holds(all[step], tag)) << tag;
  for (const char* tag :
       {"load/loop_3_layer_1", "entropy/loop_1_layer_0", "overlap/loop_2_layer_1", "block_rms/loop_3_layer_0"}) {
    EXPECT_TRUE(holds(all[2], tag)) << tag << " in the first step of a session";
    EXPECT_FALSE(holds(all[3], tag)) << tag << " between looks";
    EXPECT_TRUE(holds(all[4], tag)) << tag << " with a look";
  }
  EXPECT_FALSE(holds(all[2], "overlap/loop_3")) << "the last loop has no next one";
  EXPECT_TRUE(holds(all[5], "relative_update/loop_2"));
  EXPECT_FALSE(holds(all[5], "router_agreement/loop_1_")) << "no number is no scalar";
  EXPECT_TRUE(holds(all[5], "router_agreement/loop_2_layer_0"));
  EXPECT_TRUE(holds(all[6], "validation/bits_per_byte"));
  EXPECT_TRUE(holds(all[7], "memory/peak_bytes"));
}

TEST_F(Events, WhatCannotBeWrittenIsAnError) {
  std::ofstream(folder_) << "a file";
  EXPECT_THROW(TensorboardLog(folder_, planted_header(), 0), Error);
  // A file that may not grow stands for a full disk.
  EventFile full(folder_ + ".full");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit none{20, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &none);
  EXPECT_THROW(full.append(version_event(1)), Error);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THROW(EventFile(folder_ + ".full"), Error) << "a file of another session is left alone";
  fs::remove(folder_ + ".full");
}

}  // namespace heddle
