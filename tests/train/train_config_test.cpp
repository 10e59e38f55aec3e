// What a training configuration refuses, and what it derives.
#include <gtest/gtest.h>

#include "tests/data/temporary_folder.h"
#include "train/train_config.h"

namespace heddle {
namespace {

/// A configuration from flags, with what every run needs.
TrainConfig config_of(const std::vector<std::string>& flags) {
  TrainConfig settings;
  Config keys;
  settings.declare(keys);
  std::vector<std::string> all = {"--run.directory", "runs/x", "--data.store", "store.h5"};
  all.insert(all.end(), flags.begin(), flags.end());
  keys.parse(all);
  settings.validate();
  return settings;
}

TEST(TrainConfig, OptimizerKeysArrive) {
  const TrainConfig c = config_of({"--optimizer.name",
                                   "muon",
                                   "--optimizer.learning_rate",
                                   "0.5",
                                   "--optimizer.decay",
                                   "matrices",
                                   "--optimizer.embedding_rate",
                                   "2",
                                   "--optimizer.head_rate",
                                   "3",
                                   "--optimizer.gain_rate",
                                   "4",
                                   "--optimizer.tied_rate_power",
                                   "0.5",
                                   "--muon.learning_rate",
                                   "0.25",
                                   "--muon.orthogonalise",
                                   "polar_express",
                                   "--muon.second_moment",
                                   "0.9",
                                   "--muon.cautious",
                                   "true",
                                   "--schedule.name",
                                   "cosine",
                                   "--model.loops",
                                   "7",
                                   "--train.steps",
                                   "50"});
  EXPECT_EQ(c.optimizer.name, "muon");
  EXPECT_EQ(c.optimizer.learning_rate, 0.5);
  EXPECT_EQ(c.optimizer.decay, "matrices");
  EXPECT_EQ(c.optimizer.embedding_rate, 2);
  EXPECT_EQ(c.optimizer.head_rate, 3);
  EXPECT_EQ(c.optimizer.gain_rate, 4);
  EXPECT_EQ(c.optimizer.tied_rate_power, 0.5);
  EXPECT_EQ(c.optimizer.loops, 7);
  EXPECT_EQ(c.optimizer.muon.learning_rate, 0.25);
  EXPECT_EQ(c.optimizer.muon.orthogonalise, "polar_express");
  EXPECT_EQ(c.optimizer.muon.second_moment, 0.9);
  EXPECT_TRUE(c.optimizer.muon.cautious);
  EXPECT_EQ(c.schedule.name, "cosine");
  EXPECT_EQ(c.schedule.total_steps, 50);
}

TEST(TrainConfig, RefusesWhatMuonCannotDo) {
  expect_error<UsageError>(
      [] {
        config_of({"--optimizer.name", "muon", "--muon.orthogonalise", "polar_express", "--muon.ns_steps", "6"});
      },
      "muon.ns_steps = 6");
  EXPECT_EQ(config_of({"--optimizer.name", "muonh", "--muon.ns_steps", "6"}).optimizer.muon.ns_steps, 6);
  expect_error<UsageError>([] { config_of({"--muon.ns_steps", "0"}); }, "muon.ns_steps");
  expect_error<UsageError>(
      [] {
        config_of({"--optimizer.name", "muon", "--muon.momentum_start", "-0.5", "--muon.momentum_steps", "2"});
      },
      "muon.momentum_start = -0.5");
  expect_error<UsageError>([] { config_of({"--muon.momentum", "1"}); }, "muon.momentum");
  expect_error<UsageError>([] { config_of({"--muon.orthogonalise", "svd"}); }, "polar_express");
  expect_error<UsageError>([] { config_of({"--optimizer.name", "lion"}); }, "muonh");
  expect_error<UsageError>([] { config_of({"--schedule.name", "constant"}); }, "cosine");
}

TEST(TrainConfig, WarmUpAndDecayShareTheSteps) {
  const auto with = [](const char* warmup, const char* decay, const char* name = "wsd") {
    std::vector<std::string> flags{"--schedule.name", name, "--schedule.warmup_ratio", warmup};
    if (std::string(name) == "wsd") flags.insert(flags.end(), {"--schedule.decay_ratio", decay});
    return config_of(flags);
  };
  EXPECT_NO_THROW(with("0.5", "0.5"));
  EXPECT_NO_THROW(with("0.9", "0.1"));
  EXPECT_NO_THROW(with("0.7", "0.3"));
  expect_error<UsageError>([&] { with("0.5", "0.51"); }, "are more than all steps");
  EXPECT_EQ(with("0.25", "1").schedule.warmup_steps(), 250) << "1 decays all that the warm-up leaves";
  EXPECT_NO_THROW(with("0.95", "", "cosine"));
}

}  // namespace
}  // namespace heddle
