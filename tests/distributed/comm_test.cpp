// Communication between ranks, against answers that each rank can work out alone. Runs with any number of ranks from 2.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "comm/mpi_communicator.h"
#include "comm/process_groups.h"
#include "support/error.h"
#include "tests/distributed/world.h"

namespace heddle {
namespace {

/// Values of very different sizes, so that the order of additions shows in the bits. Every rank can make those of all.
template <typename T>
T contribution(int rank, int64_t element) {
  const auto mix = static_cast<uint32_t>(rank * 7919 + element * 104729 + 17) * 2654435761U;
  const T sign = (mix & 1U) != 0 ? T{1} : T{-1};
  return sign * std::ldexp(T{1} + static_cast<T>(mix >> 8) / T{16777216}, static_cast<int>((mix >> 1) % 40));
}

template <typename T>
std::vector<T> contributions(int rank, int64_t count) {
  std::vector<T> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = contribution<T>(rank, i);
  return values;
}

template <typename T>
std::vector<T> sum_in_order(int first_rank, int step, int ranks, int64_t count) {
  std::vector<T> sums = contributions<T>(first_rank, count);
  for (int r = first_rank + step; r < ranks; r += step)
    for (int64_t i = 0; i < count; ++i) sums[static_cast<size_t>(i)] += contribution<T>(r, i);
  return sums;
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <typename T>
void expect_ordered_sum(Communicator& world, int64_t count) {
  std::vector<T> values = contributions<T>(world.rank(), count);
  world.all_reduce_sum(std::span<T>(values));
  EXPECT_TRUE(same_bits(values, sum_in_order<T>(0, 1, world.size(), count))) << count << " elements";
}

/// World communicator that splits every call into chunks of a few bytes.
MpiCommunicator chunked(int64_t chunk_bytes) {
  return {MPI_COMM_WORLD, false, chunk_bytes};
}

TEST(Comm, OrderShowsInTheTestsOwnValues) {
  if (test_world().size() < 3) return;  // two numbers have one sum
  const int64_t count = 1000;
  std::vector<float> backwards = contributions<float>(test_world().size() - 1, count);
  for (int r = test_world().size() - 2; r >= 0; --r)
    for (int64_t i = 0; i < count; ++i) backwards[static_cast<size_t>(i)] += contribution<float>(r, i);
  EXPECT_FALSE(same_bits(backwards, sum_in_order<float>(0, 1, test_world().size(), count)));
}

TEST(Comm, SumsInRankOrderToTheBit) {
  for (const int64_t count : {0, 1, 2, 3, 5, 7, 1000, 1003}) {
    expect_ordered_sum<float>(test_world(), count);
    expect_ordered_sum<double>(test_world(), count);
  }
}

TEST(Comm, ChunksLeaveTheBitsOfSumsAlone) {
  for (const int64_t chunk : {1, 4, 12, 100}) {
    MpiCommunicator world = chunked(chunk);
    for (const int64_t count : {0, 1, 3, 101, 256}) {
      expect_ordered_sum<float>(world, count);
      expect_ordered_sum<double>(world, count);
    }
  }
}

TEST(Comm, SumsMoreThanOneChunkOfTheRealSize) {
  expect_ordered_sum<float>(test_world(), (int64_t{5} << 20) + 3);
}

TEST(Comm, SumsCounts) {
  for (const int64_t chunk : {8, 24, 4096}) {
    MpiCommunicator world = chunked(chunk);
    const int64_t big = int64_t{1} << 40;
    std::vector<int64_t> counts(11);
    for (size_t i = 0; i < counts.size(); ++i) counts[i] = big * world.rank() + static_cast<int64_t>(i);
    world.all_reduce_sum(std::span<int64_t>(counts));
    const int64_t ranks = world.size();
    for (size_t i = 0; i < counts.size(); ++i)
      EXPECT_EQ(counts[i], big * ranks * (ranks - 1) / 2 + ranks * static_cast<int64_t>(i));
  }
}

TEST(Comm, FindsMaximaAndSpreadsNan) {
  Communicator& world = test_world();
  std::vector<int64_t> counts{-world.rank() - 5, world.rank()};
  world.all_reduce_max(std::span<int64_t>(counts));
  EXPECT_EQ(counts, (std::vector<int64_t>{-5, world.size() - 1}));

  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (int bad = 0; bad < world.size(); ++bad) {
    std::vector<double> values{-1.5 - world.rank(), world.rank() * 2.0, world.rank() == bad ? nan : 1.0};
    world.all_reduce_max(std::span<double>(values));
    EXPECT_EQ(values[0], -1.5);
    EXPECT_EQ(values[1], 2.0 * (world.size() - 1));
    EXPECT_TRUE(std::isnan(values[2])) << "NaN of rank " << bad;
  }
  world.all_reduce_max(std::span<double>());
}

TEST(Comm, BroadcastsFromEveryRank) {
  for (const int64_t chunk : {1, 7, 1 << 20}) {
    MpiCommunicator world = chunked(chunk);
    for (int root = 0; root < world.size(); ++root) {
      std::vector<int32_t> values(13);
      if (world.rank() == root) std::iota(values.begin(), values.end(), root * 100);
      world.broadcast(values.data(), values.size() * sizeof(int32_t), root);
      std::vector<int32_t> expected(13);
      std::iota(expected.begin(), expected.end(), root * 100);
      EXPECT_EQ(values, expected);
    }
    world.broadcast(nullptr, 0, 0);
  }
}

TEST(Comm, GathersInRankOrder) {
  for (const int64_t chunk : {1, 5, 1 << 20}) {
    MpiCommunicator world = chunked(chunk);
    std::vector<int32_t> mine(9), all(mine.size() * static_cast<size_t>(world.size()), -1);
    std::iota(mine.begin(), mine.end(), world.rank() * 1000);
    world.all_gather(mine.data(), mine.size() * sizeof(int32_t), all.data());
    for (size_t i = 0; i < all.size(); ++i)
      EXPECT_EQ(all[i], static_cast<int32_t>(i / mine.size() * 1000 + i % mine.size()));
  }
}

/// Rows that rank `from` sends to rank `to`: uneven, and many pairs exchange nothing.
int64_t rows_between(int from, int to) {
  return (from * 3 + to * 5) % 4;
}

int64_t row_value(int from, int to, int64_t row, int64_t column) {
  return ((from * 100 + to) * 1000 + row) * 10 + column;
}

/// Exchanges rows of three numbers and compares with the answer; returns the bytes that went to other ranks.
int64_t expect_exchange(Communicator& world, int64_t (*rows)(int from, int to)) {
  const int me = world.rank(), ranks = world.size();
  std::vector<int64_t> send_rows, receive_rows(static_cast<size_t>(ranks)), sent, expected;
  int64_t bytes = 0;
  for (int r = 0; r < ranks; ++r) {
    send_rows.push_back(rows(me, r));
    if (r != me) bytes += rows(me, r) * 24;
    for (int64_t i = 0; i < rows(me, r) * 3; ++i) sent.push_back(row_value(me, r, i / 3, i % 3));
    for (int64_t i = 0; i < rows(r, me) * 3; ++i) expected.push_back(row_value(r, me, i / 3, i % 3));
  }
  world.exchange_counts(send_rows, 1, receive_rows);
  for (int r = 0; r < ranks; ++r) EXPECT_EQ(receive_rows[static_cast<size_t>(r)], rows(r, me));
  std::vector<int64_t> received(expected.size() + 3, -1);  // three numbers behind the end that must stay
  const int64_t before = world.traffic().exchange_bytes;
  world.exchange_rows(sent.data(), send_rows, received.data(), receive_rows, 3 * sizeof(int64_t));
  EXPECT_EQ(world.traffic().exchange_bytes - before, bytes);
  expected.insert(expected.end(), 3, -1);
  EXPECT_EQ(received, expected);
  return bytes;
}

TEST(Comm, ExchangesRowsOfUnevenNumbers) {
  for (const int64_t chunk : {1, 10, 24, 1 << 20}) {
    MpiCommunicator world = chunked(chunk);
    expect_exchange(world, rows_between);
  }
}

TEST(Comm, ExchangesWithRanksThatHaveNothing) {
  Communicator& world = test_world();
  expect_exchange(world, [](int, int) { return int64_t{0}; });
  expect_exchange(world, [](int from, int) { return int64_t{from == 0 ? 5 : 0}; });
  expect_exchange(world, [](int, int to) { return int64_t{to == 1 ? 4 : 0}; });
  expect_exchange(world, [](int from, int to) { return int64_t{from == to ? 6 : 0}; });
}

TEST(Comm, ExchangesMoreThanOneChunkOfTheRealSize) {
  // 3 rows of 3 MiB + 8 bytes for each rank do not fall on the limits of chunks.
  Communicator& world = test_world();
  const auto ranks = static_cast<size_t>(world.size());
  const size_t row = (size_t{3} << 17) + 1;
  const std::vector<int64_t> rows(ranks, 3);
  std::vector<int64_t> sent(ranks * 3 * row), received(sent.size(), -1);
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<int64_t>(i) * 16 + world.rank();
  world.exchange_rows(sent.data(), rows, received.data(), rows, row * sizeof(int64_t));
  int64_t wrong = 0;
  for (size_t i = 0; i < received.size(); ++i) {
    const size_t from = i / (3 * row), position = i % (3 * row) + static_cast<size_t>(world.rank()) * 3 * row;
    wrong += received[i] != static_cast<int64_t>(position * 16 + from);
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Comm, ExchangesBlocksOfCounts) {
  Communicator& world = test_world();
  std::vector<int64_t> sent, received(static_cast<size_t>(world.size()) * 2), expected;
  for (int r = 0; r < world.size(); ++r) {
    for (int i = 0; i < 2; ++i) sent.push_back(row_value(world.rank(), r, 0, i));
    for (int i = 0; i < 2; ++i) expected.push_back(row_value(r, world.rank(), 0, i));
  }
  world.exchange_counts(sent, 2, received);
  EXPECT_EQ(received, expected);
}

TEST(Comm, RefusesListsThatDoNotFit) {
  Communicator& world = test_world();
  const std::vector<int64_t> shorter(static_cast<size_t>(world.size()) - 1, 0);
  EXPECT_THROW(world.exchange_rows(nullptr, shorter, nullptr, shorter, 8), std::logic_error);
  std::vector<int64_t> received(shorter.size());
  EXPECT_THROW(world.exchange_counts(shorter, 1, received), std::logic_error);
  EXPECT_THROW(chunked(0), std::logic_error);
  EXPECT_THROW(chunked(int64_t{1} << 31), std::logic_error);
}

TEST(Comm, NamesTheOperationOfAnMpiError) {
  int value = 0;
  try {
    test_world().broadcast(&value, sizeof value, test_world().size());  // there is no such rank
    FAIL() << "a broadcast from a rank that does not exist went through";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("broadcast"), std::string::npos) << text;
    EXPECT_NE(text.find(fmt::format("rank {}", test_world().rank())), std::string::npos) << text;
  }
}

TEST(Comm, CountsTraffic) {
  Communicator& world = test_world();
  const int64_t others = world.size() - 1;
  const auto bytes_of = [&](auto&& call) {
    const int64_t before = world.traffic().other_bytes;
    call();
    return world.traffic().other_bytes - before;
  };
  std::vector<char> all(static_cast<size_t>(world.size()) * 10);
  EXPECT_EQ(bytes_of([&] { world.all_gather("0123456789", 10, all.data()); }), 10 * others);
  // Out go the shards of the others and, to each of them, the sum of the own one.
  std::vector<float> values(static_cast<size_t>(world.size()) * 6);
  EXPECT_EQ(bytes_of([&] { world.all_reduce_sum(std::span<float>(values)); }), 2 * 6 * 4 * others);
}

TEST(Comm, SplitsByColour) {
  Communicator& world = test_world();
  const std::unique_ptr<Communicator> part = world.split(world.rank() % 2);
  EXPECT_EQ(part->rank(), world.rank() / 2);
  EXPECT_EQ(part->size(), (world.size() + 1 - world.rank() % 2) / 2);
  std::vector<float> values = contributions<float>(world.rank(), 77);
  part->all_reduce_sum(std::span<float>(values));
  EXPECT_TRUE(same_bits(values, sum_in_order<float>(world.rank() % 2, 2, world.size(), 77)));
}

TEST(Comm, MakesGroupsOfEveryDivisor) {
  Communicator& world = test_world();
  for (int n = 1; n <= world.size(); ++n) {
    if (world.size() % n != 0) {
      EXPECT_THROW(ProcessGroups(world, n), UsageError);
      continue;
    }
    ProcessGroups groups(world, n);
    EXPECT_EQ(groups.expert_parallel().size(), n);
    EXPECT_EQ(groups.expert_parallel().rank(), world.rank() % n);
    EXPECT_EQ(groups.expert_replicas().size(), world.size() / n);
    EXPECT_EQ(groups.expert_replicas().rank(), world.rank() / n);
    EXPECT_EQ(groups.owned_experts(n * 3).first, world.rank() % n * 3);
    EXPECT_EQ(groups.owned_experts(n * 3).count, 3);
    if (n > 1) {
      EXPECT_THROW(groups.owned_experts(n + 1), Error);
    }
    int64_t ranks = world.rank();
    groups.expert_parallel().all_reduce_sum(std::span<int64_t>(&ranks, 1));
    const int64_t first = world.rank() / n * n;  // neighbours
    EXPECT_EQ(ranks, first * n + n * (n - 1) / 2);
  }
}

TEST(Comm, GathersTexts) {
  Communicator& world = test_world();
  const auto text_of = [](int r) {
    return r == 0 ? std::string() : std::string(static_cast<size_t>(r), 'a') + '\0' + "z";
  };
  const std::vector<std::string> texts = all_gather_text(world, text_of(world.rank()));
  ASSERT_EQ(static_cast<int>(texts.size()), world.size());
  for (int r = 0; r < world.size(); ++r) EXPECT_EQ(texts[static_cast<size_t>(r)], text_of(r));
  EXPECT_EQ(all_gather_text(world, ""), std::vector<std::string>(static_cast<size_t>(world.size())));
}

TEST(Comm, AgreesOnWhatAllRanksHave) {
  Communicator& world = test_world();
  EXPECT_TRUE(all_ranks(world, true));
  EXPECT_FALSE(all_ranks(world, false));
  for (int r = 0; r < world.size(); ++r) EXPECT_FALSE(all_ranks(world, world.rank() != r));
}

TEST(Comm, OneFailureThrowsOnAllRanks) {
  Communicator& world = test_world();
  EXPECT_NO_THROW(throw_if_any_failed(world, ""));
  const int bad = world.size() - 1;
  try {
    throw_if_any_failed(world, world.rank() == bad ? "no such file" : "", "look again");
    FAIL() << "rank " << world.rank() << " went on";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), fmt::format("rank {}: no such file", bad));
    EXPECT_EQ(error.hint(), "look again");
  }
  try {
    throw_if_any_failed(world, fmt::format("bad {}", world.rank()));
    FAIL() << "rank " << world.rank() << " went on";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).rfind("rank 0: bad 0; rank 1: bad 1", 0), 0U) << error.what();
  }
}

TEST(Comm, KnowsTheRanksOfThisHost) {
  // The tests start all ranks on one machine.
  EXPECT_EQ(test_job().local_size(), test_world().size());
  EXPECT_EQ(test_job().local_rank(), test_world().rank());
  EXPECT_FALSE(test_job().host().empty());
}

}  // namespace
}  // namespace heddle
