// A job of one rank, and the checks that need no other rank.
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "comm/job.h"
#include "comm/process_groups.h"
#include "support/error.h"

namespace heddle {
namespace {

TEST(SingleCommunicator, ExchangesByCopy) {
  const auto world = make_single_communicator();
  EXPECT_EQ(world->rank(), 0);
  EXPECT_EQ(world->size(), 1);
  const std::vector<int32_t> sent{1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> rows{2};
  std::vector<int32_t> received(7, -1);
  world->exchange_rows(sent.data(), rows, received.data(), rows, 3 * sizeof(int32_t));
  EXPECT_EQ(received, (std::vector<int32_t>{1, 2, 3, 4, 5, 6, -1}));
  world->exchange_rows(nullptr, std::vector<int64_t>{0}, nullptr, std::vector<int64_t>{0}, 8);
  EXPECT_THROW(world->exchange_rows(sent.data(), rows, received.data(), std::vector<int64_t>{1}, 4), std::logic_error);

  std::vector<int64_t> counts(2);
  world->exchange_counts(std::vector<int64_t>{8, 9}, 2, counts);
  EXPECT_EQ(counts, (std::vector<int64_t>{8, 9}));
  std::vector<int32_t> gathered(6);
  world->all_gather(sent.data(), sent.size() * sizeof(int32_t), gathered.data());
  EXPECT_EQ(gathered, sent);
  EXPECT_EQ(world->traffic().exchange_bytes + world->traffic().other_bytes, 0);
}

TEST(SingleCommunicator, LeavesReductionsAlone) {
  const auto world = make_single_communicator();
  std::vector<float> values{1.5F, -2};
  world->all_reduce_sum(std::span<float>(values));
  EXPECT_EQ(values, (std::vector<float>{1.5F, -2}));
  world->broadcast(values.data(), 8, 0);
  EXPECT_THROW(world->broadcast(values.data(), 8, 1), std::logic_error);
  const auto part = world->split(3);
  EXPECT_EQ(part->size(), 1);
}

TEST(SingleCommunicator, FailsWithItsOwnMessage) {
  const auto world = make_single_communicator();
  EXPECT_EQ(all_gather_text(*world, "text"), std::vector<std::string>{"text"});
  EXPECT_TRUE(all_ranks(*world, true));
  EXPECT_FALSE(all_ranks(*world, false));
  EXPECT_NO_THROW(throw_if_any_failed(*world, ""));
  try {
    throw_if_any_failed(*world, "no such file", "look again");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "no such file");
    EXPECT_EQ(error.hint(), "look again");
  }
}

using Variables = std::vector<std::pair<const char*, const char*>>;

/// Environment without a launcher, with the given variables; the former values come back at the end.
class Environment {
 public:
  explicit Environment(const Variables& set = {}) {
    for (const char* name : kNames) {
      const char* value = std::getenv(name);
      if (value != nullptr) former_.emplace_back(name, value);
      unsetenv(name);
    }
    for (const auto& [name, value] : set) setenv(name, value, 1);
  }
  ~Environment() {
    for (const char* name : kNames) unsetenv(name);
    for (const auto& [name, value] : former_) setenv(name.c_str(), value.c_str(), 1);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  static constexpr const char* kNames[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",     "MV2_COMM_WORLD_SIZE",
                                           "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_PROCID"};
  std::vector<std::pair<std::string, std::string>> former_;
};

TEST(Launcher, IsFoundByItsVariables) {
  {
    const Environment none;
    EXPECT_FALSE(launcher_environment().present);
    EXPECT_EQ(launcher_environment().size, 1);
  }
  {
    const Environment open_mpi(
        Variables{{"OMPI_COMM_WORLD_SIZE", "3"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "0"}});
    EXPECT_TRUE(launcher_environment().present);
    EXPECT_EQ(launcher_environment().size, 3);
    EXPECT_EQ(launcher_environment().variable, "OMPI_COMM_WORLD_SIZE");
  }
  {
    const Environment pmi(Variables{{"PMI_SIZE", "8"}});
    EXPECT_EQ(launcher_environment().variable, "PMI_SIZE");
    EXPECT_EQ(launcher_environment().size, 8);
  }
  {
    const Environment step(Variables{{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "1"}});
    EXPECT_EQ(launcher_environment().variable, "SLURM_STEP_NUM_TASKS");
    EXPECT_EQ(launcher_environment().size, 4);
  }
}

TEST(Launcher, IsNotSeenInBatchScriptsAndBadNumbers) {
  {
    const Environment batch(Variables{{"SLURM_NTASKS", "16"}, {"SLURM_PROCID", "0"}});
    EXPECT_FALSE(launcher_environment().present);
  }
  {
    const Environment shell(Variables{{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}});
    EXPECT_FALSE(launcher_environment().present);
  }
  for (const char* bad : {"", "0", "-2", "four", "4x", "99999999999"}) {
    const Environment environment(Variables{{"PMI_SIZE", bad}});
    EXPECT_FALSE(launcher_environment().present) << bad;
  }
}

TEST(Job, StartsNoMpiWithoutALauncher) {
  const Environment none;
  Job job;
  EXPECT_EQ(job.world().size(), 1);
  EXPECT_EQ(job.local_rank(), 0);
  EXPECT_EQ(job.local_size(), 1);
  EXPECT_FALSE(job.host().empty());
}

TEST(JobDeathTest, AbortEndsTheProcessWithTheStatus) {
  const Environment none;
  Job job;
  EXPECT_EXIT(job.abort("disk full", 5), testing::ExitedWithCode(5), "^error: disk full\n$");
}

std::string layout_error(int ranks, int expert_parallel, int64_t experts) {
  try {
    check_layout(ranks, expert_parallel, experts);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Layout, ListsTheValidChoices) {
  EXPECT_EQ(layout_error(4, 3, 8), "expert_parallel 3 does not divide 8 experts and 4 ranks; valid: 1, 2, 4");
  EXPECT_EQ(layout_error(12, 8, 8), "expert_parallel 8 does not divide 8 experts and 12 ranks; valid: 1, 2, 4");
  EXPECT_EQ(layout_error(4, 4, 6), "expert_parallel 4 does not divide 6 experts and 4 ranks; valid: 1, 2");
  EXPECT_NE(layout_error(4, 0, 8), "");
  EXPECT_NE(layout_error(4, -1, 8), "");
  EXPECT_NE(layout_error(4, 1, 0), "");
  EXPECT_EQ(layout_error(4, 2, 8), "");
  EXPECT_EQ(layout_error(1, 1, 1), "");
}

TEST(Layout, NoExpertIsLostWhereRanksDoNotDivide) {
  EXPECT_EQ(layout_error(3, 3, 8), "expert_parallel 3 does not divide 8 experts and 3 ranks; valid: 1");
  EXPECT_EQ(layout_error(4, 4, 2), "expert_parallel 4 does not divide 2 experts and 4 ranks; valid: 1, 2");
  EXPECT_EQ(layout_error(24, 24, 128),
            "expert_parallel 24 does not divide 128 experts and 24 ranks; valid: 1, 2, 4, 8");
  EXPECT_EQ(layout_error(2, 2, 1), "expert_parallel 2 does not divide 1 experts and 2 ranks; valid: 1");
  EXPECT_EQ(layout_error(2, 1, 1), "");
}

TEST(ProcessGroups, OfOneRankOwnAllExperts) {
  const auto world = make_single_communicator();
  ProcessGroups groups(*world, 1);
  EXPECT_EQ(groups.expert_parallel().size(), 1);
  EXPECT_EQ(groups.expert_replicas().size(), 1);
  EXPECT_EQ(groups.owned_experts(8).first, 0);
  EXPECT_EQ(groups.owned_experts(8).count, 8);
  EXPECT_THROW(ProcessGroups(*world, 2), UsageError);
}

}  // namespace
}  // namespace heddle
