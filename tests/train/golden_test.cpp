// The reference cases of tests/golden with every kernel table, on one rank. (On several: tests/distributed.)
#include <gtest/gtest.h>

#include <filesystem>

#include "train/reference_case.h"

namespace heddle {

class Golden : public testing::TestWithParam<std::tuple<std::string, const Kernels*>> {};

TEST_P(Golden, IsReproduced) {
  const auto& [name, kernels] = GetParam();
  const auto world = make_single_communicator();
  const CaseReport report = verify_case(std::string(HEDDLE_SOURCE_DIR) + "/tests/golden/" + name, *world, 1, *kernels);
  EXPECT_GT(report.checked(), 20);
  for (const QuantityResult& q : report.quantities)
    EXPECT_NE(q.status, QuantityResult::Status::kFail)
        << q.quantity << " is off by " << q.error << " at " << q.worst << "\nreproduce: heddle verify tests/golden/"
        << name << " --device " << kernels->name;
}

INSTANTIATE_TEST_SUITE_P(AllCases, Golden,
                         testing::Combine(testing::Values("loom_r1", "loom_r3_full", "loom_r4_k2",
                                                          "loom_r6_k3_capacity", "loom_authors_init"),
                                          testing::Values(&ref::kernels(), &cpu::kernels())),
                         [](const auto& param_info) {
                           return std::get<0>(param_info.param) + "_" + std::get<1>(param_info.param)->name;
                         });

}  // namespace heddle
