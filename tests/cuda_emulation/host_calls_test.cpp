// While the host waits in MPI, the emulated device must go on (runtime/host_calls.cpp): every blocking call that the
// comm room makes is in that file.
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace heddle {

namespace {

namespace fs = std::filesystem;

/// Names behind "MPI_" that start with a capital and a small letter, as functions do, and are called.
std::set<std::string> calls_in(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  const std::string content = text.str();
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  std::set<std::string> calls;
  for (size_t begin = content.find("MPI_"); begin != std::string::npos; begin = content.find("MPI_", begin + 1)) {
    size_t end = begin;
    while (end < content.size() && is_letter(content[end])) ++end;
    const bool is_whole_word = begin == 0 || !is_letter(content[begin - 1]);
    const bool is_function = end - begin > 5 && std::islower(static_cast<unsigned char>(content[begin + 5])) != 0;
    if (is_whole_word && is_function && end < content.size() && content[end] == '(')
      calls.insert(content.substr(begin, end - begin));
  }
  return calls;
}

/// They return at once, or end the job.
const std::set<std::string> kNeverWait = {
    "MPI_Abort",       "MPI_Comm_rank",    "MPI_Comm_set_errhandler",
    "MPI_Comm_size",   "MPI_Error_string", "MPI_Finalized",
    "MPI_Init_thread", "MPI_Irecv",        "MPI_Isend",
};

}  // namespace

TEST(HostCalls, LetTheDeviceWork) {
  const fs::path root = HEDDLE_SOURCE_DIR;
  const std::set<std::string> covered = calls_in(root / "tests/cuda_emulation/runtime/host_calls.cpp");
  EXPECT_TRUE(covered.contains("MPI_Barrier"));
  std::set<std::string> used;
  for (const auto& entry : fs::recursive_directory_iterator(root / "comm"))
    if (entry.path().extension() == ".cpp" || entry.path().extension() == ".h") used.merge(calls_in(entry.path()));
  EXPECT_TRUE(used.contains("MPI_Barrier"));
  for (const std::string& call : used)
    EXPECT_TRUE(kNeverWait.contains(call) || covered.contains(call))
        << call << " waits on the host: add it to tests/cuda_emulation/runtime/host_calls.cpp";
}

}  // namespace heddle
