// What a run says of itself before its first step.
#include <gtest/gtest.h>

#include "launch/scene.h"

namespace heddle::testing {
namespace {

TEST(StartupReport, EpochsAreThoseOfWholeWindows) {
  const Scene scene;
  // 31 unique tokens are one window of 16.
  const Outcome outcome =
      scene.run("$H train --config small.ini --run.directory scratch/r --train.steps 6 --data.unique_tokens 31");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("training reads 192 tokens: 12.00 epochs of 16 tokens (data.unique_tokens)"),
            std::string::npos)
      << outcome.output;
}

}  // namespace
}  // namespace heddle::testing
