#include "support/hdf5.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/error.h"

namespace heddle {

class Hdf5Test : public testing::Test {
 protected:
  std::string path_ = testing::TempDir() + "heddle_hdf5_test_" + std::to_string(getpid()) + ".h5";
  void TearDown() override { std::filesystem::remove(path_); }
};

TEST_F(Hdf5Test, ValuesAttributesAndNamesComeBack) {
  {
    h5::File file(path_, h5::File::Mode::kCreate);
    file.write<float>("/a/b/values", {2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
    file.write<int32_t>("/a/scalar", {}, std::vector<int32_t>{-7});
    file.write<float>("/a/empty", {0, 4}, std::vector<float>{});
    file.set_attribute("/", "name", std::string("loom"));
    file.set_attribute("/a/b/values", "loss", 0.5);
    file.set_attribute("/a/b/values", "step", int64_t{12});
  }
  const h5::File file(path_, h5::File::Mode::kRead);
  EXPECT_EQ(file.read<float>("/a/b/values"), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(file.read<double>("/a/b/values")[5], 6.0);
  EXPECT_EQ(file.read<int32_t>("/a/scalar"), std::vector<int32_t>{-7});
  EXPECT_TRUE(file.read<float>("/a/empty").empty());
  EXPECT_EQ(file.extent("/a/b/values"), (h5::Extent{2, 3}));
  EXPECT_EQ(file.datasets("/a"), (std::vector<std::string>{"b/values", "empty", "scalar"}));
  EXPECT_EQ(file.text_attribute("/", "name"), "loom");
  EXPECT_EQ(file.real_attribute("/a/b/values", "loss"), 0.5);
  EXPECT_EQ(file.integer_attribute("/a/b/values", "step"), 12);
  EXPECT_THROW(file.read<float>("/a/missing"), Error);
}

TEST_F(Hdf5Test, ContiguousBytesStandAtTheReportedOffset) {
  {
    h5::File file(path_, h5::File::Mode::kCreate);
    file.write<uint16_t>("/first", {3}, std::vector<uint16_t>{1, 2, 3});
    file.write<uint16_t>("/tokens", {4}, std::vector<uint16_t>{9, 8, 7, 65535});
  }
  const uint64_t offset = h5::File(path_, h5::File::Mode::kRead).file_offset("/tokens");
  EXPECT_EQ(offset % 64, 0u);
  std::ifstream raw(path_, std::ios::binary);
  raw.seekg(static_cast<std::streamoff>(offset));
  uint16_t values[4];
  raw.read(reinterpret_cast<char*>(values), sizeof values);
  EXPECT_EQ(values[0], 9);
  EXPECT_EQ(values[3], 65535);
}

TEST_F(Hdf5Test, AppendedRowsAreSeenByAReaderWhileTheWriterIsOpen) {
  h5::File writer(path_, h5::File::Mode::kCreate);
  writer.create_growing("/log", h5::Type::kFloat32, {2}, 16);
  writer.start_swmr_write();
  writer.append<float>("/log", std::vector<float>{1, 2});
  writer.append<float>("/log", std::vector<float>{3, 4});
  writer.flush();
  const h5::File reader(path_, h5::File::Mode::kReadSwmr);
  EXPECT_EQ(reader.read<float>("/log"), (std::vector<float>{1, 2, 3, 4}));
}

TEST_F(Hdf5Test, OtherFilesAreRefusedByName) {
  std::ofstream(path_) << "not hdf5";
  try {
    h5::File file(path_, h5::File::Mode::kRead);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("is not an HDF5 file"), std::string::npos);
  }
  EXPECT_THROW(h5::File("/nonexistent/x.h5", h5::File::Mode::kRead), Error);
  EXPECT_THROW(h5::File("/nonexistent/x.h5", h5::File::Mode::kCreate), Error);
}

}  // namespace heddle
