// Which rank prints what, and where to.
#include <gtest/gtest.h>

#include "support/log.h"

namespace heddle {
namespace {

struct Output {
  std::string out, err;
};

Output print_all_as(int rank, int size) {
  set_log_rank(rank, size);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  log_line("step 1");
  log_warning("slow");
  log_rank_warning("few tokens");
  log_error("no disk");
  Output output;
  output.out = testing::internal::GetCapturedStdout();
  output.err = testing::internal::GetCapturedStderr();
  set_log_rank(0, 1);
  return output;
}

TEST(Log, AloneNamesNoRank) {
  const Output output = print_all_as(0, 1);
  EXPECT_EQ(output.out, "step 1\n");
  EXPECT_EQ(output.err, "warning: slow\nwarning: few tokens\nerror: no disk\n");
}

TEST(Log, RankZeroSpeaksForTheJob) {
  const Output output = print_all_as(0, 2);
  EXPECT_EQ(output.out, "step 1\n");
  EXPECT_EQ(output.err, "warning: slow\nwarning: [rank 0] few tokens\nerror: [rank 0] no disk\n");
}

TEST(Log, OtherRanksSpeakForThemselves) {
  const Output output = print_all_as(1, 2);
  EXPECT_EQ(output.out, "");
  EXPECT_EQ(output.err, "warning: [rank 1] few tokens\nerror: [rank 1] no disk\n");
}

}  // namespace
}  // namespace heddle
