// What the program says where there is no GPU, in every build: without CUDA, for GPUs on a machine without a driver,
// and on an emulated machine without one.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "launch/scene.h"

namespace heddle::testing {
namespace {

const std::string kBuild = HEDDLE_CUDA_BUILD;

class Device : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { scene_ = std::make_unique<Scene>(); }
  static void TearDownTestSuite() { scene_.reset(); }
  void SetUp() override {
    if (kBuild == "ON" && scene_->run("nvidia-smi -L").status == 0) GTEST_SKIP() << "there is a GPU";
  }

  static Outcome train(const std::string& flags) {
    return scene_->run("CUDA_EMULATION_DRIVER=none $H train --config small.ini --run.directory scratch/run " + flags);
  }
  static void expect_words(const Outcome& outcome, const std::string& words) {
    EXPECT_NE(outcome.output.find(words), std::string::npos) << "lacks '" << words << "':\n" << outcome.output;
  }

  static inline std::unique_ptr<Scene> scene_;
};

TEST_F(Device, ThatIsWantedAndMissingEndsTheRun) {
  const Outcome outcome = train("--run.device cuda");
  EXPECT_EQ(outcome.status, kBuild == "OFF" ? 2 : 1) << outcome.output;
  expect_words(outcome, kBuild == "OFF" ? "this program was built without CUDA" : " sees no GPU: ");
  expect_words(outcome, "hint: ");
}

TEST_F(Device, ThatIsWantedForACaseAndMissingEndsIt) {
  const Outcome outcome = scene_->run("CUDA_EMULATION_DRIVER=none $H verify case --device cuda");
  EXPECT_EQ(outcome.status, kBuild == "OFF" ? 2 : 1) << outcome.output;
}

TEST_F(Device, ThatIsChosenByItselfFallsBackToTheCpuAndSaysSo) {
  const Outcome outcome = train("--run.device auto");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  expect_words(outcome, "device: cpu");
  const bool says_why = outcome.output.find("warning: no GPU, so the CPU computes: ") != std::string::npos;
  EXPECT_EQ(says_why, kBuild != "OFF") << outcome.output;
}

}  // namespace
}  // namespace heddle::testing
