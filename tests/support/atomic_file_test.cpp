#include "support/atomic_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/error.h"

namespace heddle {

namespace fs = std::filesystem;

class AtomicFileTest : public testing::Test {
 protected:
  AtomicFileTest() { fs::create_directories(folder_); }
  ~AtomicFileTest() override { fs::remove_all(folder_); }

  /// The message of the error that `action` throws; empty if it throws none.
  template <typename Action>
  static std::string message_of(Action action) {
    try {
      action();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  fs::path folder_ = fs::path(testing::TempDir()) / ("heddle_atomic_file_" + std::to_string(getpid()));
  std::string path_ = (folder_ / "file.txt").string();
};

TEST_F(AtomicFileTest, PublishesNewAndOverOld) {
  publish_text(path_, "old");
  EXPECT_EQ(read_text_file(path_), "old");
  const std::string bytes("new\0\r\nline", 10);
  publish_text(path_, bytes);
  EXPECT_EQ(read_text_file(path_), bytes);
  EXPECT_FALSE(fs::exists(path_ + ".tmp"));
}

TEST_F(AtomicFileTest, AFileInTheCurrentFolderCanBePublished) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  publish_text("plain.txt", "here");
  fs::current_path(before);
  EXPECT_EQ(read_text_file((folder_ / "plain.txt").string()), "here");
}

TEST_F(AtomicFileTest, AReaderSeesTheOldFileUntilTheRename) {
  publish_text(path_, "old");
  publish_file(path_, [&](const std::string& temporary) {
    std::ofstream(temporary) << "new";
    EXPECT_EQ(read_text_file(path_), "old");
  });
  EXPECT_EQ(read_text_file(path_), "new");
}

TEST_F(AtomicFileTest, AFailingWriterLeavesTheOldFileAndNothingElse) {
  publish_text(path_, "old");
  EXPECT_THROW(publish_file(path_,
                            [](const std::string& temporary) {
                              std::ofstream(temporary) << "half";
                              throw std::runtime_error("stop");
                            }),
               std::runtime_error);
  EXPECT_EQ(read_text_file(path_), "old");
  EXPECT_FALSE(fs::exists(path_ + ".tmp"));
}

TEST_F(AtomicFileTest, AFullDiskLeavesTheOldFile) {
  publish_text(path_, "old");
  // Every write to /dev/full fails as on a full disk.
  fs::create_symlink("/dev/full", path_ + ".tmp");
  const std::string message = message_of([&] { publish_text(path_, std::string(100000, 'x')); });
  EXPECT_NE(message.find(path_ + ".tmp"), std::string::npos) << message;
  EXPECT_NE(message.find("No space left on device"), std::string::npos) << message;
  EXPECT_EQ(read_text_file(path_), "old");
}

TEST_F(AtomicFileTest, ErrorsNameThePathAndTheReason) {
  const std::string missing = (folder_ / "missing" / "file.txt").string();
  for (const std::string& message :
       {message_of([&] { publish_text(missing, "x"); }), message_of([&] { read_text_file(missing); }),
        message_of([&] { sync_path(missing); })}) {
    EXPECT_NE(message.find(missing), std::string::npos) << message;
    EXPECT_NE(message.find("No such file or directory"), std::string::npos) << message;
  }
  EXPECT_NE(message_of([&] { read_text_file(folder_.string()); }).find("folder"), std::string::npos);
  // A folder stands where the file should go.
  fs::create_directories(path_ + "/inside");
  EXPECT_NE(message_of([&] { publish_text(path_, "x"); }).find("Is a directory"), std::string::npos);
}

}  // namespace heddle
