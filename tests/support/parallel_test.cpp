#include "support/parallel.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <stdexcept>
#include <vector>

namespace heddle {
namespace {

class Parallel : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { omp_set_num_threads(GetParam()); }
  void TearDown() override { omp_set_num_threads(before_); }
  int before_ = omp_get_max_threads();
};
INSTANTIATE_TEST_SUITE_P(Threads, Parallel, testing::Values(1, 2, 3));

TEST_P(Parallel, VisitsEveryIndexOnce) {
  for (const int64_t count : {0, 1, 2, 7, 1000}) {
    for (const bool worthwhile : {false, true}) {
      std::vector<int> visits(static_cast<size_t>(count));
      int* const at = visits.data();
      parallel_for(count, worthwhile, [at](int64_t i) { ++at[i]; });
      EXPECT_EQ(visits, std::vector<int>(static_cast<size_t>(count), 1)) << count;
    }
  }
}

TEST_P(Parallel, WorkersHaveTheirOwnNumbers) {
  // What a worker keeps to itself needs no lock: a wrong number would be a race, and a wrong sum.
  std::vector<int64_t> sums(static_cast<size_t>(parallel_workers()));
  int64_t* const sum = sums.data();
  parallel_chunks(1000, true, [sum](Chunk chunk) {
    for (int64_t i = chunk.first; i < chunk.last; ++i) sum[chunk.worker] += i;
  });
  int64_t total = 0;
  for (const int64_t s : sums) total += s;
  EXPECT_EQ(total, 999 * 1000 / 2);
}

TEST_P(Parallel, StretchesDoNotDependOnThreads) {
  const int64_t count = 3 * kStretch + 5 + kParallelElements;
  std::vector<int64_t> lengths(static_cast<size_t>(div_up(count, kStretch)));
  int64_t* const length = lengths.data();
  for_each_stretch(count, [length](int64_t first, int64_t last) { length[first / kStretch] = last - first; });
  for (size_t i = 0; i + 1 < lengths.size(); ++i) EXPECT_EQ(lengths[i], kStretch);
  EXPECT_EQ(lengths.back(), 5);
}

TEST_P(Parallel, AnExceptionLeavesTheTeam) {
  const auto body = [](int64_t i) {
    if (i == 500) throw std::runtime_error("at 500");
  };
  EXPECT_THROW(parallel_for(1000, true, body), std::runtime_error);
  EXPECT_NO_THROW(parallel_for(500, true, body)) << "the next team is whole again";
}

}  // namespace
}  // namespace heddle
