// heddle probe as a user starts it: its file, its tables, several ranks, and what it refuses.
#include <gtest/gtest.h>

#include <filesystem>

#include "analysis/probe_result.h"
#include "launch/scene.h"

namespace heddle::testing {
namespace {

TEST(Probe, WritesTablesAndAFileThatReadsBack) {
  const Scene scene;
  const Outcome outcome = scene.run(
      "$H probe run -o scratch/p.json --probe.documents 3 --probe.experts 1 --probe.gradients kappa --probe.loops 3,1");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  for (const char* text : {"a loop skipped", "routers of two loops swapped", "KL effective depth", "mutual information",
                           "gradient by visit", "kappa", "written to scratch/p.json"})
    EXPECT_NE(outcome.output.find(text), std::string::npos) << text << " in\n" << outcome.output;
  const ProbeResult r = read_probe_result(scene.path("scratch/p.json"));
  EXPECT_EQ(r.documents, 3);
  EXPECT_EQ(r.part, "validation");
  EXPECT_EQ(r.step, 3);
  ASSERT_EQ(r.loops, 2);
  EXPECT_EQ(r.skipped_loops.size(), 2U);
  EXPECT_EQ(r.router_swaps.size(), 1U);
  EXPECT_EQ(r.one_router.size(), 2U);
  ASSERT_EQ(r.loop_counts.size(), 2U);
  EXPECT_EQ(r.loop_counts[1].loops, 3);
  EXPECT_EQ(r.skipped_experts.size(), static_cast<size_t>(r.layers));
  EXPECT_FALSE(r.gradients.kappas.empty());
  EXPECT_GT(r.loss.mean, 0);
}

TEST(Probe, OfARunLeavesProbeJsonThereAndOfACheckpointBesideIt) {
  const Scene scene;
  const Outcome outcome = scene.run(
      "cp -r run scratch/copy && $H probe scratch/copy --probe.documents 2 && cp no_moment.h5 scratch/c.h5 && "
      "$H probe scratch/c.h5 --probe.documents 2");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(read_probe_result(scene.path("scratch/copy/probe.json")).documents, 2);
  EXPECT_EQ(read_probe_result(scene.path("scratch/c.h5.probe.json")).documents, 2);
  EXPECT_FALSE(std::filesystem::exists(scene.path("scratch/copy/probe.json.tmp")));
}

TEST(Probe, OfTwoRanksIsThatOfOne) {
  const Scene scene;
  const std::string flags = " probe run --probe.documents 5 --probe.micro_batch 1 ";
  const Outcome outcome = scene.run("$H" + flags + "-o scratch/1.json >scratch/log && $MPIRUN -n 2 -- $H" + flags +
                                    "--layout.expert_parallel 2 -o scratch/2.json");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const ProbeResult one = read_probe_result(scene.path("scratch/1.json"));
  const ProbeResult two = read_probe_result(scene.path("scratch/2.json"));
  EXPECT_NEAR(one.loss.mean, two.loss.mean, 1e-5);
  EXPECT_NEAR(one.skipped_loops.at(0).change.mean, two.skipped_loops.at(0).change.mean, 1e-5);
  EXPECT_NE(one.skipped_loops.at(0).change.mean, 0);
}

TEST(Probe, SaysWhenThereIsOneRouter) {
  const Scene scene;
  const Outcome outcome = scene.run(
      "$H train --config small.ini --run.directory scratch/run --moe.router shared >scratch/log && "
      "$H probe scratch/run --probe.documents 2");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("there is nothing to swap"), std::string::npos) << outcome.output;
  EXPECT_TRUE(read_probe_result(scene.path("scratch/run/probe.json")).router_swaps.empty());
}

TEST(Probe, RefusesWhatItCannotDo) {
  const Scene scene;
  const auto expect_refused = [&](const std::string& command, int status, const char* text) {
    const Outcome outcome = scene.run(command);
    EXPECT_EQ(outcome.status, status) << command << "\n" << outcome.output;
    EXPECT_NE(outcome.output.find(text), std::string::npos) << command << "\n" << outcome.output;
  };
  expect_refused("$H probe", 2, "one checkpoint or run folder");
  expect_refused("$H probe nowhere", 1, "there is no file 'nowhere'");
  expect_refused("$H probe run -o", 2, "-o lacks its file");
  expect_refused("$H probe run -o nowhere/p.json", 1, "nowhere");
  expect_refused("$H probe run --probe.documents 0", 2, "probe.documents");
  expect_refused("$H probe run --probe.gradients all", 2, "norms");
  expect_refused("$H probe run --probe.document 3", 2, "probe.documents");
  expect_refused("$H probe run --probe.store whole.h5", 1, "validation");
  expect_refused(
      "$H data build text -o scratch/s.h5 --data.tokenizer sentencepiece --data.vocabulary_size 320"
      " --data.validation_fraction 0.1 --data.split blank_lines >scratch/log && $H probe run --probe.store "
      "scratch/s.h5",
      1, "'scratch/s.h5' has another tokenizer");
  expect_refused("$H probe store.h5 -o scratch/p.json", 1, "store.h5");
  expect_refused(
      "$H train --config small.ini --run.directory scratch/run --feed_forward.core dense --moe.experts 8 >scratch/log; "
      "$MPIRUN -n 2 -- $H probe scratch/run --probe.experts 2",
      2, "the core of this model has none");
}

}  // namespace
}  // namespace heddle::testing
