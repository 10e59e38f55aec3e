// heddle plan as a user starts it: without data and ranks, from any folder.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace {

struct Outcome {
  int status = 0;
  std::string output;  ///< stdout and stderr
};

/// `heddle plan ARGUMENTS` in the folder of presets, where no token store is.
Outcome plan(const std::string& arguments) {
  const std::string command =
      std::string("cd " HEDDLE_SOURCE_DIR "/configs && " HEDDLE_PROGRAM " plan ") + arguments + " 2>&1";
  FILE* const pipe = popen(command.c_str(), "r");
  Outcome outcome;
  std::array<char, 4096> buffer;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) outcome.output.append(buffer.data(), n);
  outcome.status = WEXITSTATUS(pclose(pipe));
  return outcome;
}

void expect_shows(const Outcome& outcome, int status, const std::string& part) {
  EXPECT_EQ(outcome.status, status) << outcome.output;
  EXPECT_NE(outcome.output.find(part), std::string::npos) << outcome.output;
}

TEST(Plan, CountsAsTheStudyOfTheFileDoes) {
  const std::string iso_depth = R"("parameters": 40140800,
      "training_flops_per_token": 1047183360.0)";
  expect_shows(plan("isodepth.cfg --json"), 0, iso_depth);
  expect_shows(plan("--config isodepth.cfg --json true"), 0, iso_depth);
  expect_shows(plan("isodepth.cfg"), 0, "1047183360");
  expect_shows(plan("vanilla.cfg --model.hidden_size 768 --model.query_heads 6 --model.kv_heads 6 --model.layers 6 "
                    "--feed_forward.intermediate 2048"),
               0, "543255552");
}

TEST(Plan, TakesItsFileAnywhereAmongTheFlags) {
  expect_shows(plan("--model.vocabulary_size 4096 --json loom-tiny.cfg --model.loops=6"), 0, "\"total\": 2076928");
  expect_shows(plan("--json false loom-tiny.cfg --model.vocabulary_size 4096"), 0, "2076928");
}

TEST(Plan, NeedsAVocabularyFromTheFileTheFlagsOrAStore) {
  expect_shows(plan("loom-tiny.cfg"), 2, "there is no 'runs/data/classics.h5'");
  expect_shows(plan(""), 2, "data.store names none\n  hint: --model.vocabulary_size 4096");
  expect_shows(plan("loom-tiny.cfg --model.vocabulary_size 4096"), 0, "2076928");
}

TEST(Plan, RefusesWhatTrainingWouldRefuse) {
  expect_shows(plan("loom-tiny.cfg --model.kv_heads 3"), 2, "does not divide");
  expect_shows(plan("loom-tiny.cfg loom-small.cfg"), 2, "plan takes one configuration, and found 'loom-small.cfg'");
  expect_shows(plan("loom-tiny.cfg --config loom-small.cfg"), 2, "--config is given twice");
  expect_shows(plan("loom-1.7b.cfg --moe.experts 65536 --moe.intermediate 1048576 --model.layers 65536"), 2,
               "parameters is more than can be counted (1e+17)");
  expect_shows(plan("missing.cfg"), 2, "there is no such file");
  expect_shows(plan("."), 2, "'.' is a folder, no configuration");
  for (const char* help : {"--help", "-h", "loom-tiny.cfg --help", "loom-tiny.cfg -h"})
    expect_shows(plan(help), 0, "usage: heddle plan");
}

}  // namespace
