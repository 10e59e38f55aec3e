// Words that device code and what calls it must not use (docs/cuda_kernels.md). The emulated build refuses many of them
// too; this test needs no CUDA, and covers what only nvcc compiles.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

namespace {

namespace fs = std::filesystem;

struct Rule {
  std::string_view word;
  std::string_view instead;
  std::vector<std::string_view> allowed_in = {};  ///< the files that hide it
};

const std::vector<std::string_view> kPtxFiles = {"src/cuda/tensor_core.cuh", "src/cuda/async_copy.cuh",
                                                 "src/cuda/numbers.cuh"};

const std::vector<Rule> kRules = {
    {"__shared__", "use SHARED_ARRAY, SHARED_VAR or DYNAMIC_SHARED", {"src/cuda/shared_memory.cuh"}},
    {"__constant__", "pass it as an argument"},
    {"__managed__", "copy it"},
    {"<<<", "use launch()"},
    {"__activemask", "a mask names the lanes that come, by construction"},
    {"cooperative_groups", "blocks and warps only"},
    {"asm(", "inline PTX belongs into a wrapper with an emulated twin", kPtxFiles},
    {"asm volatile", "inline PTX belongs into a wrapper with an emulated twin", kPtxFiles},
    {"<cub/", "the emulation does not have it"},
    {"<thrust/", "the emulation does not have it"},
    {"<mma.h>", "use mma_m16n8k16"},
    {"cudaMemcpy(", "it uses the default stream: cudaMemcpyAsync, or cuda/memory.h"},
    {"cudaMemset(", "it uses the default stream: cudaMemsetAsync, or cuda/memory.h"},
    {"cudaMallocManaged", "allocate on the device and copy"},
    {"cudaStreamCreate(", "its streams wait for the default one: cudaStreamCreateWithFlags(cudaStreamNonBlocking)"},
    {"cudaStreamLegacy", "name a stream"},
    {"cudaStreamPerThread", "name a stream"},
    {"cudaDeviceSynchronize", "wait for the stream whose work is needed"},
    {"cublasSgemm", "use cublasGemmEx, which says all types"},
};

bool is_source(const fs::path& path) {
  const std::string ending = path.extension().string();
  return ending == ".cu" || ending == ".cuh" || ending == ".cpp" || ending == ".h";
}

/// Violations in one file, as "FILE:LINE: ...".
void check_file(const fs::path& root, const fs::path& path, std::vector<std::string>& violations) {
  std::ifstream file(path);
  const std::string name = path.lexically_relative(root).generic_string();
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string_view code = std::string_view(line).substr(0, line.find("//"));
    for (const Rule& rule : kRules)
      if (code.find(rule.word) != std::string_view::npos &&
          std::find(rule.allowed_in.begin(), rule.allowed_in.end(), name) == rule.allowed_in.end())
        violations.push_back(fmt::format("{}:{}: '{}': {}", name, number, rule.word, rule.instead));
  }
}

std::vector<std::string> check_tree(const fs::path& root) {
  std::vector<std::string> violations;
  for (const char* folder : {"src", "comm", "moe", "data", "launch", "bench"}) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder))
      if (entry.is_regular_file() && is_source(entry.path())) check_file(root, entry.path(), violations);
  }
  return violations;
}

class PlantedKernel : public testing::Test {
 protected:
  PlantedKernel() { fs::create_directories(root_ / "src/kernels/cuda"); }
  ~PlantedKernel() override { fs::remove_all(root_); }

  std::vector<std::string> check(const std::string& content) {
    std::ofstream(root_ / "src/kernels/cuda/a.cu") << content;
    return check_tree(root_);
  }

  fs::path root_ = fs::path(testing::TempDir()) / ("heddle_cuda_rules_" + std::to_string(getpid()));
};

}  // namespace

TEST(CudaRules, HoldInThisTree) {
  const std::vector<std::string> violations = check_tree(HEDDLE_SOURCE_DIR);
  EXPECT_TRUE(violations.empty()) << fmt::format("{}", fmt::join(violations, "\n"));
}

TEST_F(PlantedKernel, IsFoundWithItsLine) {
  const std::vector<std::string> violations = check("// text\n__shared__ float values[4];\n");
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_TRUE(violations[0].starts_with("src/kernels/cuda/a.cu:2: '__shared__'")) << violations[0];
}

TEST_F(PlantedKernel, MayUseWhatIsAllowed) {
  EXPECT_TRUE(check("SHARED_ARRAY(float, values, 4);  // not __shared__\ncudaMemcpyAsync(a, b, c, d, e);\n").empty());
}

}  // namespace heddle
