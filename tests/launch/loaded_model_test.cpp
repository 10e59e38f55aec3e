// The commands that use a checkpoint: what generate prints is UTF-8, and eval says which loops were trained.
#include <gtest/gtest.h>

#include "launch/scene.h"

namespace heddle::testing {
namespace {

TEST(Generate, PrintsUtf8OfRandomBytes) {
  const Scene scene;
  // At this temperature every byte is as likely as any other.
  for (const char* seed : {"1", "2", "3"}) {
    const Outcome outcome =
        scene.run(std::string("$H generate run --prompt warp --temperature 100 --top_k 0 --tokens 60 --seed ") + seed +
                  " > scratch/text; cat scratch/text; iconv -f UTF-8 -t UTF-8 scratch/text >/dev/null");
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_EQ(outcome.output.substr(0, 4), "warp") << outcome.output;
    EXPECT_NE(outcome.output.find("\xEF\xBF\xBD"), std::string::npos) << "no broken byte was drawn: " << outcome.output;
  }
}

TEST(Eval, SaysWhichLoopCountsTheStepsRan) {
  const Scene scene;
  const std::string train = "$H train --config small.ini --run.directory scratch/run --train.steps 8 ";
  const auto expect_first_line = [&](const std::string& flags, const char* trained) {
    const Outcome outcome = scene.run(train + flags + " >scratch/log && $H eval scratch/run --eval.samples 2");
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_NE(outcome.output.find(trained), std::string::npos) << outcome.output;
    EXPECT_NE(outcome.output.find("\n    2 loops  loss"), std::string::npos) << outcome.output;
  };
  expect_first_line("", "(trained with 2 loops, depth rule trained)");
  expect_first_line("--loop_count.distribution uniform --loop_count.low 3 --loop_count.high 4",
                    "(trained with 3 to 4 loops, 3.");
  expect_first_line("--growth.initial_loops 1 --growth.at 0.5", "(trained with 1 to 2 loops, 1.50 on average");
}

}  // namespace
}  // namespace heddle::testing
