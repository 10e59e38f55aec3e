// The file of a probe: what is written comes back, and files that are not one are refused by name.
#include "analysis/probe_result.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "support/error.h"

namespace heddle {

namespace {

/// A value of its own for every member, so that two keys that are mixed up show.
ProbeResult planted() {
  ProbeResult r;
  r.checkpoint = "run/checkpoints/step_20.h5";
  r.store = "a \"quoted\" store.h5";
  r.part = "validation";
  r.step = 20;
  r.loops = 3;
  r.layers = 2;
  r.prelude_layers = 4;
  r.coda_layers = 5;
  r.experts = 8;
  r.top_k = 6;
  r.documents = 64;
  r.tokens = 12345678901;
  r.sequence = 128;
  r.loss = {2.5, 0.125};
  r.loss_by_loop = {{1, {3.5, 0.5}}, {2, {3.25, 0.25}}};
  r.depth.entries = {{"embedding", -1, -1, {4, 0.1}, {9, 0.2}}, {"core", 1, 0, {1.0 / 3, 0.3}, {8, 0.4}}};
  r.depth.threshold = 1.5;
  r.depth.peak = 0;
  r.depth.effective_depth = 1;
  Effect effect;
  effect.change = {0.75, std::numeric_limits<double>::quiet_NaN()};
  effect.documents = 1;
  effect.loop = 1;
  r.skipped_loops = {effect};
  effect.layer = 0;
  r.skipped_blocks = {effect};
  effect.loop = -1;
  r.skipped_layers = {effect};
  effect.expert = 7;
  effect.slots = 99;
  r.skipped_experts = {effect};
  effect = {};
  effect.loop = 0;
  effect.other_loop = 2;
  r.router_swaps = {effect};
  effect.other_loop = -1;
  r.one_router = {effect, effect};
  effect = {};
  effect.loops = 5;
  effect.change = {-1e-300, 0};
  r.loop_counts = {effect};
  r.information = {{"core.0", 512, 2.0, {0.5, 0.4}, {0.3, 0.2}, {0.1, 0.05}}};
  r.gradients.matrices = {{"core.0.attn.q_proj.weight", {0, 2}, {1, 2}, 2.5, 1.25}};
  r.gradients.kappas = {{"core.0.attn", {1, 2}, {3, 4}, {5, 6}, 1.75, std::numeric_limits<double>::quiet_NaN()}};
  r.gradients.cosines = {{"truncated", 2, 0.9, 0.8, 0.7}};
  return r;
}

class ProbeFile : public testing::Test {
 protected:
  ProbeFile() { std::filesystem::create_directories(folder_); }
  ~ProbeFile() override { std::filesystem::remove_all(folder_); }

  ProbeResult read(const std::string& text) {
    std::ofstream(path_) << text;
    return read_probe_result(path_);
  }
  /// Reading must fail with a text that names the file and contains `fragment`.
  void expect_refused(const std::string& text, const std::string& fragment) {
    try {
      read(text);
      FAIL() << "accepted: " << text.substr(0, 60);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(path_), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(fragment), std::string::npos) << error.what();
    }
  }
  static std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  }

  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("heddle_probe_file_" + std::to_string(getpid()));
  std::string path_ = (folder_ / "probe.json").string();
};

}  // namespace

TEST_F(ProbeFile, WhatIsWrittenComesBack) {
  const ProbeResult r = read(probe_json(planted()));
  EXPECT_EQ(r.store, "a \"quoted\" store.h5");
  EXPECT_EQ(r.tokens, 12345678901);
  EXPECT_EQ(r.coda_layers, 5);
  EXPECT_EQ(r.loss.standard_error, 0.125);
  ASSERT_EQ(r.loss_by_loop.size(), 2u);
  EXPECT_EQ(r.loss_by_loop[1].loss.mean, 3.25);
  ASSERT_EQ(r.depth.entries.size(), 2u);
  EXPECT_EQ(r.depth.entries[0].loop, -1);
  EXPECT_EQ(r.depth.entries[1].kl.mean, 1.0 / 3);
  EXPECT_EQ(r.depth.effective_depth, 1);
  EXPECT_EQ(r.skipped_blocks.at(0).layer, 0);
  EXPECT_EQ(r.skipped_layers.at(0).loop, -1);
  EXPECT_EQ(r.skipped_experts.at(0).slots, 99);
  EXPECT_TRUE(std::isnan(r.skipped_loops.at(0).change.standard_error));
  EXPECT_EQ(r.router_swaps.at(0).other_loop, 2);
  EXPECT_EQ(r.one_router.size(), 2u);
  EXPECT_EQ(r.loop_counts.at(0).change.mean, -1e-300);
  EXPECT_EQ(r.information.at(0).loop_given_token.chance, 0.05);
  EXPECT_EQ(r.gradients.matrices.at(0).loops, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(r.gradients.kappas.at(0).read_back_norms, (std::vector<double>{5, 6}));
  EXPECT_TRUE(std::isnan(r.gradients.kappas.at(0).bound));
  EXPECT_EQ(r.gradients.cosines.at(0).norm_ratio, 0.7);
  // Every member, also those not named above.
  EXPECT_EQ(probe_json(r), probe_json(planted()));
}

TEST_F(ProbeFile, AModelWithoutRoutersOrGradientsHasEmptyLists) {
  const ProbeResult r = read(probe_json(ProbeResult{}));
  EXPECT_TRUE(r.router_swaps.empty());
  EXPECT_TRUE(r.gradients.kappas.empty());
  EXPECT_EQ(r.depth.effective_depth, -1);
}

TEST_F(ProbeFile, OtherFilesAreRefusedByName) {
  const std::string good = probe_json(planted());
  expect_refused(good.substr(0, good.size() / 2), "not whole");
  expect_refused("", "not whole");
  expect_refused("[1]", "expected an object");
  expect_refused("{\"results\": 1}", "missing");
  expect_refused(replaced(good, "heddle.probe", "heddle.log"), "heddle.log");
  expect_refused(replaced(good, "\"version\": 1", "\"version\": 2"), "version 2");
  expect_refused(replaced(good, "\"tokens\"", "\"tokns\""), "\"tokens\"");
  expect_refused(replaced(good, "\"step\": 20", "\"step\": 20.5"), "\"step\"");
  expect_refused(replaced(good, "\"found\": 0.5", "\"found\": \"many\""), "\"information\"[0]");
  std::filesystem::remove(path_);
  EXPECT_THROW(read_probe_result(path_), Error);
}

}  // namespace heddle
