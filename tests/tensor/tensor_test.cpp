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

TEST(Allocator, SmallerRequestsShareABlock) {
  constexpr int64_t kLarge = 1 << 20, kSmaller = kLarge * 3 / 4, kSmall = kLarge / 2;
  Allocator allocator;
  allocator.release(allocator.allocate(kLarge, Purpose::kExchange), kLarge, Purpose::kExchange);
  // The block stays as large as it is, whatever it was handed out for.
  for (const int64_t bytes : {kSmaller, kLarge, kSmaller, kLarge}) {
    void* const block = allocator.allocate(bytes, Purpose::kExchange);
    EXPECT_EQ(allocator.use().total, bytes);
    EXPECT_EQ(allocator.use().system_requests, 1);
    EXPECT_EQ(allocator.use().reserved, kLarge);
    allocator.release(block, bytes, Purpose::kExchange);
  }
  allocator.release(allocator.allocate(kSmall, Purpose::kExchange), kSmall, Purpose::kExchange);
  EXPECT_EQ(allocator.use().system_requests, 2) << "half of a block would be wasted";
  allocator.release_cache();
  EXPECT_EQ(allocator.use().reserved, 0);
}

TEST(Allocator, WhatIsKeptIsBoundedByThePeak) {
  Allocator allocator;
  // Every size is new, so that no kept block serves twice.
  for (int64_t bytes = 1 << 16; bytes < 1 << 26; bytes *= 2) {
    void* const first = allocator.allocate(bytes, Purpose::kExchange);
    void* const second = allocator.allocate(bytes, Purpose::kExchange);
    allocator.release(first, bytes, Purpose::kExchange);
    allocator.release(second, bytes, Purpose::kExchange);
    EXPECT_LE(allocator.use().reserved, allocator.use().total_peak * 2);
  }
  for (int64_t bytes = 1 << 25; bytes > 1 << 16; bytes /= 2) {
    allocator.release(allocator.allocate(bytes, Purpose::kExchange), bytes, Purpose::kExchange);
    EXPECT_LE(allocator.use().reserved, allocator.use().total_peak * 2);
  }
  allocator.release_cache();
}

TEST(Allocator, SaysWhatHelpsWhereMemoryEnds) {
  struct NoMemory : Memory {
    void* take(int64_t) override { return nullptr; }
    void give(void*, int64_t) noexcept override {}
    bool host_readable() const override { return true; }
    void copy_in(void*, const void*, size_t) override {}
    void copy_out(void*, const void*, size_t) override {}
    void copy_within(void*, const void*, size_t) override {}
    void clear(void*, size_t) override {}
  } none;
  Allocator allocator(none);
  const auto hint_of = [&](Purpose purpose) {
    try {
      allocator.allocate(1000, purpose);
    } catch (const Error& error) {
      return error.hint();
    }
    return std::string();
  };
  for (const Purpose purpose : {Purpose::kWeights, Purpose::kGradients, Purpose::kOptimizer})
    EXPECT_NE(hint_of(purpose).find("take a smaller model"), std::string::npos) << purpose_name(purpose);
  EXPECT_NE(hint_of(Purpose::kActivations).find("fewer rows per micro-batch"), std::string::npos);
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

TEST(Tensor, CountsBeyond32BitsAreExact) {
  EXPECT_EQ(element_count({37'500 * 8, 7'168}), 2'150'400'000) << "slots of 37,500 tokens with 8 experts each";
}

TEST(Tensor, CountsOverflowWithAnError) {
  EXPECT_THROW(element_count({int64_t{1} << 40, int64_t{1} << 40}), Error);
}

}  // namespace heddle
