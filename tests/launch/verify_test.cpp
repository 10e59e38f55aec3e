// What heddle verify says of cases that are whole, changed or partial, and its status.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "launch/scene.h"

namespace heddle::testing {
namespace {

class Verify : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { scene_ = std::make_unique<Scene>(); }
  static void TearDownTestSuite() { scene_.reset(); }

  static void expect(const std::string& cases, int status, const std::vector<std::string>& fragments) {
    SCOPED_TRACE(cases);
    const Outcome outcome = scene_->run("$H verify " + cases);
    EXPECT_EQ(outcome.status, status) << outcome.output;
    for (const std::string& fragment : fragments)
      EXPECT_NE(outcome.output.find(fragment), std::string::npos) << "lacks '" << fragment << "':\n" << outcome.output;
  }

  static inline std::unique_ptr<Scene> scene_;
};

TEST_F(Verify, WholeCasesSayWhatWasCompared) {
  expect("case", 0,
         {"within tolerance: ",
          " quantities compared, of forward, forward_capacity, grads, grads_segment0, train, "
          "params_step1, params_final\n",
          "1 of 1 cases within tolerance (1 ranks, "});
  expect("case family", 0, {"compared, of forward, eval, grads, train, params_step1, params_final\n", "2 of 2 cases"});
}

TEST_F(Verify, AChangedValueEndsWithStatusOne) {
  expect("changed", 1, {"forward/logits", "FAILED", "  out of tolerance: ", "0 of 1 cases within tolerance"});
  expect("changed_family", 1, {"forward/logits", "FAILED", "0 of 1 cases within tolerance"});
  expect("case family changed_family", 1, {"2 of 3 cases within tolerance"});
  expect("no_gradient", 1, {"core.0.attn.v_proj.weight (unexpected here)", "FAILED"});
  expect("--json changed", 1, {"\"passed\": false"});
}

TEST_F(Verify, APartialCaseSaysWhatItLacks) {
  expect("no_forward", 0, {"params_final; the case has no /forward\n", "; 1 of them without /forward or /train\n"});
  expect("no_train", 0, {"params_final; the case has no /train\n", "1 of 1 cases within tolerance"});
  expect("no_train case no_forward", 0, {"3 of 3 cases", "; 2 of them without /forward or /train\n"});
}

}  // namespace
}  // namespace heddle::testing
