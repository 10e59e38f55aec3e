#include "support/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace heddle {

TEST(Random, IsAFunctionOfItsArguments) {
  EXPECT_EQ(random_words(1, Draw::kTest, 2, 3), random_words(1, Draw::kTest, 2, 3));
  EXPECT_NE(random_words(1, Draw::kTest, 2, 3), random_words(2, Draw::kTest, 2, 3));
  EXPECT_NE(random_words(1, Draw::kTest, 2, 3), random_words(1, Draw::kShuffle, 2, 3));
  EXPECT_NE(random_words(1, Draw::kTest, 2, 3), random_words(1, Draw::kTest, 3, 3));
  EXPECT_NE(random_words(1, Draw::kTest, 2, 3), random_words(1, Draw::kTest, 2, uint64_t{3} << 32));
}

TEST(Random, NormalHasUnitMoments) {
  double sum = 0, square = 0;
  constexpr int kCount = 20000;
  for (int i = 0; i < kCount; ++i) {
    const double z = random_normal(7, Draw::kTest, 0, static_cast<uint64_t>(i));
    sum += z;
    square += z * z;
  }
  EXPECT_NEAR(sum / kCount, 0.0, 0.03);
  EXPECT_NEAR(square / kCount, 1.0, 0.04);
}

TEST(Random, PermutationVisitsEveryIndexOnce) {
  for (const uint64_t size : {1, 2, 3, 31, 64, 65, 1000}) {
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < size; ++i) {
      const uint64_t image = random_permutation(5, 1, size, i);
      EXPECT_LT(image, size);
      seen.insert(image);
    }
    EXPECT_EQ(seen.size(), size);
  }
}

TEST(Random, PermutationDependsOnEpochAndSeed) {
  int same_epoch = 0, same_seed = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    same_epoch += random_permutation(5, 0, 1000, i) == random_permutation(5, 1, 1000, i);
    same_seed += random_permutation(5, 0, 1000, i) == random_permutation(6, 0, 1000, i);
  }
  EXPECT_LT(same_epoch, 20);
  EXPECT_LT(same_seed, 20);
}

}  // namespace heddle
