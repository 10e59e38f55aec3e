// The reference cases on GPUs, with the experts on one rank or split as widely as they can be.
#include <gtest/gtest.h>

#include "device/device.h"
#include "tests/distributed/world.h"
#include "tests/verify/golden_cases.h"
#include "verify/case_config.h"
#include "verify/reference_case.h"

namespace heddle {
namespace {

TEST(CudaGolden, EveryCaseIsReproduced) {
  const std::unique_ptr<OpenDevice> device = open_device(test_job(), "cuda");
  for (const std::string& name : golden_cases()) {
    const std::string folder = std::string(HEDDLE_SOURCE_DIR) + "/tests/" + name;
    const CaseConfig config = read_case_config(folder + "/config.json");
    int width = config.model.any_moe() ? test_world().size() : 1;
    while (width > 1 && config.model.moe.experts % width != 0) width /= 2;
    SCOPED_TRACE(fmt::format("{}, expert parallel {}", name, width));
    const CaseReport report = verify_case(folder, test_world(), width, device->kernels());
    EXPECT_GT(report.checked(), 20);
    for (const QuantityResult& q : report.quantities)
      EXPECT_NE(q.status, QuantityResult::Status::kFail) << q.quantity << " is off by " << q.error << " at " << q.worst;
  }
}

}  // namespace
}  // namespace heddle
