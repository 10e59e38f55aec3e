// The rooms of the tree and the arrows between them (docs/architecture.md): a file includes its own room and the rooms
// named for it here, nothing above. CMake's link lists alone do not hold this, since all rooms share the include path.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

namespace {

namespace fs = std::filesystem;

/// room -> other rooms that it may include. Rooms in src/ and rooms at the top of the tree share one name space.
const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"support", {}},
    {"cuda", {"support"}},
    {"kernels", {"support", "cuda"}},
    {"tensor", {"support", "cuda", "kernels"}},
    {"autograd", {"support", "cuda", "tensor", "kernels"}},
    {"comm", {"support", "cuda"}},
    {"device", {"support", "cuda", "kernels", "tensor", "comm"}},
    {"moe", {"support", "cuda", "tensor", "kernels", "autograd", "comm"}},
    {"model", {"support", "cuda", "tensor", "kernels", "autograd", "comm", "moe"}},
    {"optim", {"support", "cuda", "tensor", "kernels", "autograd", "comm", "moe", "model"}},
    {"data", {"support"}},
    {"analysis", {"support"}},
    {"report", {"support", "analysis"}},
    {"train",
     {"support", "cuda", "tensor", "kernels", "autograd", "comm", "moe", "model", "optim", "data", "analysis",
      "device"}},
    {"probe",
     {"support", "cuda", "tensor", "kernels", "autograd", "comm", "moe", "model", "optim", "data", "analysis", "device",
      "train"}},
    {"verify",
     {"support", "cuda", "tensor", "kernels", "autograd", "comm", "moe", "model", "optim", "data", "analysis", "device",
      "train"}},
    {"launch",
     {"support", "cuda", "tensor", "kernels", "autograd", "comm", "moe", "model", "optim", "data", "analysis", "device",
      "train", "probe", "verify", "report"}},
};

constexpr const char* kTopRooms[] = {"moe", "comm", "data", "launch"};

bool is_source(const fs::path& path) {
  static const std::set<std::string> kEndings = {".h", ".hpp", ".cuh", ".inc", ".c", ".cpp", ".cu"};
  return kEndings.contains(path.extension().string());
}

/// The header of an #include line behind its opening mark: "<vector" or "\"support/error.h"; empty for other lines.
std::string included_header(std::string_view line) {
  const auto skip = [&line](std::string_view word) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (!line.starts_with(word)) return false;
    line.remove_prefix(word.size());
    return true;
  };
  if (!skip("#") || !skip("include") || !skip("")) return "";
  if (!line.starts_with('"') && !line.starts_with('<')) return "";
  const size_t end = line.find(line.front() == '<' ? '>' : '"', 1);
  return end == std::string_view::npos ? "" : std::string(line.substr(0, end));
}

/// Violations in one file of `room`, as "FILE:LINE: ...".
void check_file(const fs::path& path, const std::string& room, std::vector<std::string>& violations) {
  std::ifstream file(path);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string quoted = included_header(line);
    if (quoted.empty()) continue;
    const std::string header = quoted.substr(1);
    const std::string target = header.substr(0, header.find('/'));
    const bool is_room = kMayInclude.contains(target) && target != header;
    const auto report = [&](const std::string& what) {
      violations.push_back(fmt::format("{}:{}: {}", path.string(), number, what));
    };
    if (quoted.front() == '<') {
      if (is_room) report(fmt::format("<{}> is ours: include it with quotes", header));
    } else if (!is_room) {
      report(fmt::format("\"{}\" does not start with the name of a room", header));
    } else if (target != room && !kMayInclude.at(room).contains(target)) {
      report(fmt::format("{} must not include {} (\"{}\")", room, target, header));
    }
  }
}

struct Check {
  int64_t files = 0;
  std::vector<std::string> violations;
};

void check_room(const fs::path& folder, const std::string& room, Check& check) {
  if (!kMayInclude.contains(room)) {
    check.violations.push_back(
        fmt::format("{}: the room {} has no arrows; name them in this test", folder.string(), room));
    return;
  }
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && is_source(entry.path())) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) check_file(file, room, check.violations);
  check.files += static_cast<int64_t>(files.size());
}

Check check_tree(const fs::path& root) {
  Check check;
  for (const auto& entry : fs::directory_iterator(root / "src")) {
    if (entry.is_directory()) {
      check_room(entry.path(), entry.path().filename().string(), check);
    } else if (is_source(entry.path())) {
      check.violations.push_back(fmt::format("{}: stands in no room", entry.path().string()));
    }
  }
  for (const char* room : kTopRooms)
    if (fs::exists(root / room)) check_room(root / room, room, check);
  return check;
}

class PlantedTree : public testing::Test {
 protected:
  PlantedTree() { fs::create_directories(root_ / "src"); }
  ~PlantedTree() override { fs::remove_all(root_); }

  void plant(const std::string& file, const std::string& content) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << content;
  }

  /// Exactly one violation, which names the file, the line and contains `fragment`.
  void expect_violation(const std::string& place, const std::string& fragment) {
    const Check check = check_tree(root_);
    ASSERT_EQ(check.violations.size(), 1u) << fmt::format("{}", fmt::join(check.violations, "\n"));
    EXPECT_TRUE(check.violations[0].starts_with((root_ / place).string())) << check.violations[0];
    EXPECT_NE(check.violations[0].find(fragment), std::string::npos) << check.violations[0];
  }

  fs::path root_ = fs::path(testing::TempDir()) / ("heddle_structure_" + std::to_string(getpid()));
};

}  // namespace

TEST(IncludeDirection, PointsDownInThisTree) {
  const Check check = check_tree(HEDDLE_SOURCE_DIR);
  EXPECT_GT(check.files, 100) << "the tree was not found in " << HEDDLE_SOURCE_DIR;
  EXPECT_TRUE(check.violations.empty()) << fmt::format("{}", fmt::join(check.violations, "\n"));
}

TEST(IncludeDirection, ArrowsHaveNoCircle) {
  // Every room that a room may include may itself include no more than that room.
  for (const auto& [room, targets] : kMayInclude) {
    EXPECT_FALSE(targets.contains(room)) << room;
    for (const std::string& target : targets) {
      ASSERT_TRUE(kMayInclude.contains(target)) << room << " names " << target;
      for (const std::string& below : kMayInclude.at(target))
        EXPECT_TRUE(targets.contains(below)) << room << " -> " << target << " -> " << below;
    }
  }
}

TEST_F(PlantedTree, ArrowsThatPointDownPass) {
  plant("src/train/a.cpp", "#include \"train/a.h\"\n#include <vector>\n#include <sys/stat.h>\n#include \"data/b.h\"\n");
  plant("comm/c.h", "#include \"support/error.h\"  // above: #include \"train/a.h\"\n");
  plant("launch/main.cpp", "#include \"train/a.h\"\n#include \"comm/c.h\"\n");
  plant("launch/notes.txt", "#include \"nowhere.h\"\n");
  const Check check = check_tree(root_);
  EXPECT_EQ(check.files, 3);
  EXPECT_TRUE(check.violations.empty()) << check.violations.front();
}

TEST_F(PlantedTree, AnArrowUpIsFoundWithItsLine) {
  plant("src/tensor/deep/a.cpp", "// text\n\n#include \"support/error.h\"\n  #  include \"model/loom.h\" // why\n");
  expect_violation("src/tensor/deep/a.cpp:4:", "tensor must not include model");
}

TEST_F(PlantedTree, CommunicationKnowsNoTensors) {
  plant("comm/a.cpp", "#include \"tensor/tensor.h\"\n");
  expect_violation("comm/a.cpp:1:", "comm must not include tensor");
}

TEST_F(PlantedTree, KernelsKnowNoTensors) {
  plant("src/kernels/cuda/a.cu", "#include \"tensor/tensor.h\"\n");
  expect_violation("src/kernels/cuda/a.cu:1:", "kernels must not include tensor");
}

TEST_F(PlantedTree, DataAndAnalysisKnowNoModel) {
  plant("data/a.h", "#include \"model/loom.h\"\n");
  expect_violation("data/a.h:1:", "data must not include model");
  fs::remove_all(root_ / "data");
  plant("src/analysis/a.h", "#include \"train/step.h\"\n");
  expect_violation("src/analysis/a.h:1:", "analysis must not include train");
}

TEST_F(PlantedTree, DetoursAreFound) {
  plant("src/tensor/a.h", "#include \"../model/loom.h\"\n");
  expect_violation("src/tensor/a.h:1:", "does not start with the name of a room");
  plant("src/tensor/a.h", "#include \"loom.h\"\n");
  expect_violation("src/tensor/a.h:1:", "does not start with the name of a room");
  plant("src/tensor/a.h", "#include <model/loom.h>\n");
  expect_violation("src/tensor/a.h:1:", "include it with quotes");
}

TEST_F(PlantedTree, ANewRoomNeedsArrows) {
  plant("src/attic/a.h", "");
  expect_violation("src/attic", "has no arrows");
  fs::remove_all(root_ / "src/attic");
  plant("src/a.h", "");
  expect_violation("src/a.h", "stands in no room");
}

}  // namespace heddle
