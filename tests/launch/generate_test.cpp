// What heddle generate prints is UTF-8, whatever bytes the model draws.
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

}  // namespace
}  // namespace heddle::testing
