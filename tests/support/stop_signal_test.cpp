#include "support/stop_signal.h"

#include <gtest/gtest.h>

#include <unistd.h>
#include <chrono>

#include <csignal>
#include <cstdlib>

namespace heddle {
namespace {

bool arrives() {
  for (int i = 0; i < 200 && StopSignal::received() == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return StopSignal::received() != 0;
}

TEST(StopSignal, IsNotedAndDoesNotEndTheProcess) {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) {
    const StopSignal stop;
    EXPECT_EQ(StopSignal::received(), 0);
    ::kill(::getpid(), signal);
    EXPECT_TRUE(arrives());
    EXPECT_EQ(StopSignal::received(), signal);
  }
  EXPECT_EQ(StopSignal::received(), 0);
}

TEST(StopSignalDeathTest, ASecondOneEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const StopSignal stop;
        ::kill(::getpid(), SIGTERM);
        if (!arrives()) std::_Exit(1);
        ::kill(::getpid(), SIGTERM);
        std::this_thread::sleep_for(std::chrono::seconds(10));
        std::_Exit(2);
      },
      testing::ExitedWithCode(128 + SIGTERM), "");
}

}  // namespace
}  // namespace heddle
