// The reference cases of tests/golden and tests/golden_family with every kernel table, on one rank. (On several:
// tests/distributed.)
#include <gtest/gtest.h>

#include "tests/train/golden_cases.h"
#include "train/reference_case.h"

namespace heddle {

class Golden : public testing::TestWithParam<std::tuple<std::string, const Kernels*>> {};

TEST_P(Golden, IsReproduced) {
  const auto& [name, kernels] = GetParam();
  const auto world = make_single_communicator();
  const CaseReport report = verify_case(std::string(HEDDLE_SOURCE_DIR) + "/tests/" + name, *world, 1, *kernels);
  EXPECT_GT(report.checked(), 20);
  for (const QuantityResult& q : report.quantities)
    EXPECT_NE(q.status, QuantityResult::Status::kFail)
        << q.quantity << " is off by " << q.error << " at " << q.worst << "\nreproduce: heddle verify tests/" << name
        << " --device " << kernels->name;
}

INSTANTIATE_TEST_SUITE_P(AllCases, Golden,
                         testing::Combine(testing::ValuesIn(golden_cases()),
                                          testing::Values(&ref::kernels(), &cpu::kernels())),
                         [](const auto& param_info) {
                           const std::string& name = std::get<0>(param_info.param);
                           return name.substr(name.find('/') + 1) + "_" + std::get<1>(param_info.param)->name;
                         });

TEST(GoldenCases, AreAllThere) {
  EXPECT_EQ(golden_cases().size(), 20U);
}

}  // namespace heddle
