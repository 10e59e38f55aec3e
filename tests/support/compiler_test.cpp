// The compiler itself: g++ 12.2 with -march=native on AVX-512 machines once made the first of these vectors 7 7 7 7.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace heddle {

TEST(Compiler, MovesHalfZeroConstantsWhole) {
  const std::vector<double> doubles{7, 7, 0, 0};
  const std::vector<int64_t> integers{7, 7, 0, 0};
  EXPECT_EQ(doubles[2] + doubles[3], 0);
  EXPECT_EQ(integers[2] + integers[3], 0);
}

}  // namespace heddle
