// The reference cases on several ranks, with the experts on one rank or split as widely as they can be.
#include <gtest/gtest.h>

#include "tests/distributed/world.h"
#include "tests/train/golden_cases.h"
#include "train/case_config.h"
#include "train/reference_case.h"

namespace heddle {
namespace {

void expect_reproduced(const std::string& name, int expert_parallel) {
  SCOPED_TRACE(fmt::format("{}, expert parallel {}", name, expert_parallel));
  const std::string folder = std::string(HEDDLE_SOURCE_DIR) + "/tests/" + name;
  const CaseReport report = verify_case(folder, test_world(), expert_parallel, cpu::kernels());
  EXPECT_GT(report.checked(), 20);
  for (const QuantityResult& q : report.quantities)
    EXPECT_NE(q.status, QuantityResult::Status::kFail) << q.quantity << " is off by " << q.error << " at " << q.worst;
}

TEST(DistributedGolden, EveryCaseIsReproduced) {
  int64_t split = 0;
  for (const std::string& name : golden_cases()) {
    expect_reproduced(name, 1);
    const CaseConfig config = read_case_config(std::string(HEDDLE_SOURCE_DIR) + "/tests/" + name + "/config.json");
    int width = config.model.any_moe() ? test_world().size() : 1;
    while (width > 1 && config.model.moe.experts % width != 0) width /= 2;
    if (width == 1) continue;
    expect_reproduced(name, width);
    ++split;
  }
  EXPECT_GE(split, 5);
}

}  // namespace
}  // namespace heddle
