#include "tensor/tensor.h"

#include <gtest/gtest.h>

namespace heddle {

TEST(Allocator, AccountsCurrentAndPeakByPurpose) {
  Allocator& allocator = Allocator::host();
  const MemoryUse before = allocator.use();
  const auto p = static_cast<size_t>(Purpose::kActivations);
  {
    const Tensor a = Tensor::empty({16}, Purpose::kActivations);
    { const Tensor b = Tensor::empty({32}, Purpose::kActivations); }
    EXPECT_EQ(allocator.use().current[p] - before.current[p], 64);
    EXPECT_EQ(allocator.use().peak[p] - before.current[p], 64 + 128);
  }
  EXPECT_EQ(allocator.use().current[p], before.current[p]);
  allocator.reset_peaks();
  EXPECT_EQ(allocator.use().peak[p], before.current[p]);
}

TEST(Allocator, FreedBlocksAreUsedAgain) {
  { const Tensor a = Tensor::empty({1000}, Purpose::kWorkspace); }
  const int64_t requests = Allocator::host().use().system_requests;
  for (int i = 0; i < 5; ++i) const Tensor a = Tensor::empty({1000}, Purpose::kGradients);
  EXPECT_EQ(Allocator::host().use().system_requests, requests);
}

TEST(Tensor, ViewsShareElements) {
  const Tensor a = Tensor::zeros({3, 4}, Purpose::kWorkspace);
  a.rows(1, 2).f32()[0] = 5;
  EXPECT_EQ(a.f32()[4], 5);
  EXPECT_EQ(a.view({12}).f32()[4], 5);
  EXPECT_EQ(a.flat(4, {2, 2}).f32()[0], 5);
  EXPECT_THROW(a.view({13}), std::logic_error);
  EXPECT_THROW(a.rows(2, 2), std::logic_error);
  EXPECT_THROW(a.i32(), std::logic_error);
}

TEST(Tensor, EmptyTensorsAreDefined) {
  const Tensor a = Tensor::zeros({0, 4}, Purpose::kWorkspace);
  EXPECT_TRUE(a.defined());
  EXPECT_EQ(a.count(), 0);
  EXPECT_EQ(a.clone().shape(), (Shape{0, 4}));
}

TEST(Tensor, CountsOverflowWithAnError) {
  EXPECT_THROW(element_count({int64_t{1} << 40, int64_t{1} << 40}), Error);
}

}  // namespace heddle
