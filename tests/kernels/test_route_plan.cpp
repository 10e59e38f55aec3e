// The lists of an exchange, for all ranks of a group in one process: messages are exchanged by hand.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/kernel_case.h"
#include "support/random.h"

namespace heddle::test {
namespace {

using Numbers = Array<int64_t>;

size_t at(int64_t i) {
  return static_cast<size_t>(i);
}

/// Each list is filled with numbers that no operation writes, so that a write beyond its end shows.
Numbers unwritten(int64_t count) {
  return Numbers(at(count), -77);
}

enum class Drop { kNothing, kSome, kAll };

struct Group {
  int64_t ranks, experts, choices, tokens;  ///< tokens of rank 0; the others have a few less
  Drop drop = Drop::kNothing;
  bool collapsed = false;  ///< all tokens choose the same experts

  int64_t tokens_of(int64_t rank) const { return std::max<int64_t>(tokens - 3 * rank, 0); }
  int64_t local() const { return experts / ranks; }
  std::string name() const {
    constexpr const char* kDrops[] = {"", "_drop_some", "_drop_all"};
    return fmt::format("P{}_E{}_k{}_N{}{}{}", ranks, experts, choices, tokens, kDrops[static_cast<int>(drop)],
                       collapsed ? "_collapsed" : "");
  }
};

std::vector<Group> groups() {
  std::vector<Group> all;
  for (const int64_t ranks : {1, 2, 4})
    for (const int64_t experts : {4, 64, 512})
      for (const Drop drop : {Drop::kNothing, Drop::kSome})
        all.push_back({ranks, experts, std::min<int64_t>(experts, 3), 45, drop});
  for (const int64_t ranks : {1, 3}) {
    all.push_back({ranks, 255, 8, 100, Drop::kSome});
    all.push_back({ranks, 6, 2, 0});
    all.push_back({ranks, 6, 2, 1});
    all.push_back({ranks, 6, 2, 7});  // a rank with one token, and one with a few
    all.push_back({ranks, 33, 3, 31, Drop::kAll});
    all.push_back({ranks, 9, 4, 700, Drop::kSome, true});
  }
  all.push_back({1, 1, 1, 257});
  all.push_back({32, 64, 32, 33, Drop::kSome});
  all.push_back({2, 4096, 2, 21});
  return all;
}

/// What the router of one rank has chosen.
struct Routing {
  int64_t tokens;
  Array<int32_t> index;
  Array<uint8_t> keep;
  Array<float> weights;
  bool all_kept;

  Routing(const Group& group, int64_t rank)
      : tokens(group.tokens_of(rank)),
        weights(normal(tokens * group.choices, static_cast<uint32_t>(100 + rank))),
        all_kept(group.drop == Drop::kNothing) {
    for (int64_t n = 0; n < tokens; ++n) {
      const auto words = random_words(9, Draw::kTest, static_cast<uint32_t>(rank), static_cast<uint64_t>(n));
      const uint64_t first = group.collapsed ? 5 : words[0], step = group.collapsed ? 1 : 1 + 2 * (words[1] % 3);
      std::vector<int32_t> chosen;
      for (uint64_t e = first; chosen.size() < at(group.choices); e += step) {
        auto expert = static_cast<int32_t>(e % static_cast<uint64_t>(group.experts));
        while (std::find(chosen.begin(), chosen.end(), expert) != chosen.end())
          expert = static_cast<int32_t>((expert + 1) % group.experts);
        chosen.push_back(expert);
      }
      index.insert(index.end(), chosen.begin(), chosen.end());
      for (int64_t j = 0; j < group.choices; ++j)  // of every seventh token nothing
        keep.push_back(group.drop == Drop::kAll || (words[2] >> (j % 32)) % 4 == 0 || n % 7 == 3 ? 0 : 1);
    }
  }

  const uint8_t* flags() const { return all_kept ? nullptr : keep.data(); }
  bool kept(int64_t slot) const { return all_kept || keep[at(slot)] != 0; }
};

struct Sent {
  RouteShape shape;
  Numbers counts, sent_token, token_begin, token_sent, sent_slot;
  Array<RouteMessage> messages;

  Sent(const Kernels& kernels, const Group& group, const Routing& routing)
      : shape{routing.tokens, group.choices, group.experts, group.ranks},
        counts(unwritten(group.ranks * (group.local() + 1))) {
    const int64_t slots = routing.tokens * group.choices;
    kernels.route_count(shape, routing.index.data(), routing.flags(), counts.data());
    sent_token = token_sent = sent_slot = unwritten(slots);
    token_begin = unwritten(routing.tokens + 1);
    messages.assign(at(slots), {-77, -77});
    kernels.route_send(shape, routing.index.data(), routing.flags(), routing.weights.data(), counts.data(),
                       sent_token.data(), token_begin.data(), token_sent.data(), sent_slot.data(), messages.data());
  }

  int64_t slots_of(int64_t expert) const {
    const int64_t local = shape.experts_per_rank();
    return counts[at(expert / local * (local + 1) + expert % local)];
  }
  int64_t rows_to(int64_t rank) const {
    const int64_t local = shape.experts_per_rank();
    return counts[at(rank * (local + 1) + local)];
  }
};

struct Received {
  int64_t rows = 0, slots = 0;
  Numbers counts, slot_row, slot_arrival, row_begin, row_slot;
  Array<float> slot_weight;
  Array<RouteMessage> messages;

  /// What `rank` gets of what all have sent.
  Received(const Kernels& kernels, const Group& group, int64_t rank, const std::vector<Sent>& sent) {
    for (const Sent& source : sent) {
      int64_t first = 0, count = 0;
      for (int64_t e = 0; e < rank * group.local(); ++e) first += source.slots_of(e);
      for (int64_t e = rank * group.local(); e < (rank + 1) * group.local(); ++e) count += source.slots_of(e);
      messages.insert(messages.end(), source.messages.begin() + first, source.messages.begin() + first + count);
      const auto announced = source.counts.begin() + rank * (group.local() + 1);
      counts.insert(counts.end(), announced, announced + group.local() + 1);
      rows += source.rows_to(rank);
      slots += count;
    }
    slot_row = slot_arrival = row_slot = unwritten(slots);
    slot_weight = blank(slots);
    row_begin = unwritten(rows + 1);
    kernels.route_receive({0, group.choices, group.experts, group.ranks}, rows, slots, counts.data(), messages.data(),
                          slot_row.data(), slot_arrival.data(), slot_weight.data(), row_begin.data(), row_slot.data());
  }
};

/// Everything, of all ranks.
struct Exchange {
  std::vector<Routing> routing;
  std::vector<Sent> sent;
  std::vector<Received> received;

  Exchange(const Kernels& kernels, const Group& group) {
    for (int64_t rank = 0; rank < group.ranks; ++rank) {
      routing.emplace_back(group, rank);
      sent.emplace_back(kernels, group, routing.back());
    }
    for (int64_t rank = 0; rank < group.ranks; ++rank) received.emplace_back(kernels, group, rank, sent);
  }
};

KernelCase route_case(const Group& group) {
  const auto run = [=](const Kernels& kernels) {
    const Exchange exchange(kernels, group);
    std::vector<Result> results;
    for (const Sent& s : exchange.sent) {
      Array<float> rows, weights;
      for (const RouteMessage& message : s.messages) {
        rows.push_back(static_cast<float>(message.row));
        weights.push_back(message.weight);
      }
      for (const auto& list : {result("counts", s.counts), result("sent_token", s.sent_token),
                               result("token_begin", s.token_begin), result("token_sent", s.token_sent),
                               result("sent_slot", s.sent_slot), result("rows", rows), result("weights", weights)})
        results.push_back(list);
    }
    for (const Received& r : exchange.received)
      for (const auto& list :
           {result("slot_row", r.slot_row), result("slot_arrival", r.slot_arrival),
            result("slot_weight", r.slot_weight), result("row_begin", r.row_begin), result("row_slot", r.row_slot)})
        results.push_back(list);
    return results;
  };
  return {group.name(), run, 0};
}

std::vector<KernelCase> route_cases() {
  std::vector<KernelCase> cases;
  for (const Group& group : groups()) cases.push_back(route_case(group));
  return cases;
}

HEDDLE_KERNEL_CASES(RoutePlan, route_cases());
HEDDLE_EACH_DEVICE(RoutePlanTest);

TEST_P(RoutePlanTest, ListsByHand) {
  // Three tokens, experts 0 and 1 of rank 0, and 2 and 3 of rank 1; the last choice is dropped.
  const RouteShape shape = {3, 2, 4, 2};
  const Array<int32_t> index = {2, 0, 3, 2, 1, 3};
  const Array<uint8_t> keep = {1, 1, 1, 1, 1, 0};
  const Array<float> weights = {0.5F, 1.5F, 2.5F, 3.5F, 4.5F, 5.5F};
  Numbers counts = unwritten(6), sent_token = unwritten(6), token_begin = unwritten(4), token_sent = unwritten(6),
          sent_slot = unwritten(6);
  Array<RouteMessage> messages(6);
  GetParam()->route_count(shape, index.data(), keep.data(), counts.data());
  EXPECT_EQ(counts, (Numbers{1, 1, 2, 2, 1, 2}));
  GetParam()->route_send(shape, index.data(), keep.data(), weights.data(), counts.data(), sent_token.data(),
                         token_begin.data(), token_sent.data(), sent_slot.data(), messages.data());
  EXPECT_EQ(sent_token, (Numbers{0, 2, 0, 1, -77, -77}));
  EXPECT_EQ(token_begin, (Numbers{0, 2, 3, 4}));
  EXPECT_EQ(token_sent, (Numbers{2, 0, 3, 1, -77, -77}));
  EXPECT_EQ(sent_slot, (Numbers{1, 4, 0, 3, 2, -77}));
  const std::vector<std::pair<int32_t, float>> expected = {{0, 1.5F}, {1, 4.5F}, {0, 0.5F}, {1, 3.5F}, {1, 2.5F}};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(messages[i].row, expected[i].first) << i;
    EXPECT_EQ(messages[i].weight, expected[i].second) << i;
  }
  // Rank 1 gets the last three from there, and one slot of its first expert from another source.
  const Numbers announced = {2, 1, 2, 1, 0, 1};
  const Array<RouteMessage> arrived = {messages[2], messages[3], messages[4], {0, 9}};
  Numbers slot_row = unwritten(4), slot_arrival = unwritten(4), row_begin = unwritten(4), row_slot = unwritten(4);
  Array<float> slot_weight = blank(4);
  GetParam()->route_receive(shape, 3, 4, announced.data(), arrived.data(), slot_row.data(), slot_arrival.data(),
                            slot_weight.data(), row_begin.data(), row_slot.data());
  EXPECT_EQ(slot_row, (Numbers{0, 1, 2, 1}));
  EXPECT_EQ(slot_arrival, (Numbers{0, 1, 3, 2}));
  EXPECT_EQ(slot_weight, (Array<float>{0.5F, 3.5F, 9, 2.5F}));
  EXPECT_EQ(row_begin, (Numbers{0, 1, 3, 4}));
  EXPECT_EQ(row_slot, (Numbers{0, 1, 3, 2}));
}

/// Of one sender, by the definitions of kernels/route_plan.h.
void expect_sender_keeps_its_promises(const Group& group, const Routing& routing, const Sent& sent) {
  const auto rank_of = [&](int64_t slot) { return routing.index[at(slot)] / group.local(); };
  Numbers rows, slots;                                    // what sent_token and sent_slot must be
  std::map<std::pair<int64_t, int64_t>, int64_t> row_of;  // rank, token
  Numbers first_row;
  for (int64_t rank = 0; rank < group.ranks; ++rank) {
    first_row.push_back(static_cast<int64_t>(rows.size()));
    for (int64_t n = 0; n < routing.tokens; ++n) {
      bool goes = group.ranks == 1;
      for (int64_t slot = n * group.choices; slot < (n + 1) * group.choices; ++slot)
        goes = goes || (routing.kept(slot) && rank_of(slot) == rank);
      if (!goes) continue;
      row_of[{rank, n}] = static_cast<int64_t>(rows.size());
      rows.push_back(n);
    }
    EXPECT_EQ(sent.rows_to(rank), static_cast<int64_t>(rows.size()) - first_row.back());
  }
  for (int64_t expert = 0; expert < group.experts; ++expert) {
    const size_t before = slots.size();
    for (int64_t slot = 0; slot < routing.tokens * group.choices; ++slot)
      if (routing.kept(slot) && routing.index[at(slot)] == expert) slots.push_back(slot);
    EXPECT_EQ(sent.slots_of(expert), static_cast<int64_t>(slots.size() - before));
  }
  EXPECT_EQ(Numbers(sent.sent_token.begin(), sent.sent_token.begin() + static_cast<int64_t>(rows.size())), rows);
  EXPECT_EQ(Numbers(sent.sent_slot.begin(), sent.sent_slot.begin() + static_cast<int64_t>(slots.size())), slots);
  for (size_t i = 0; i < slots.size(); ++i) {
    const int64_t rank = rank_of(slots[i]);
    EXPECT_EQ(sent.messages[i].row + first_row[at(rank)], row_of.at({rank, slots[i] / group.choices}));
    EXPECT_EQ(sent.messages[i].weight, routing.weights[at(slots[i])]);
  }
  for (int64_t n = 0; n < routing.tokens; ++n) {
    Numbers expected;
    for (int64_t slot = n * group.choices; slot < (n + 1) * group.choices; ++slot) {
      if (!routing.kept(slot)) continue;
      const int64_t row = row_of.at({rank_of(slot), n});
      if (std::find(expected.begin(), expected.end(), row) == expected.end()) expected.push_back(row);
    }
    const auto first = sent.token_sent.begin() + sent.token_begin[at(n)];
    EXPECT_EQ(Numbers(first, sent.token_sent.begin() + sent.token_begin[at(n + 1)]), expected) << "token " << n;
  }
}

/// Of one receiver: the orders, and that lists of slots and rows are each other's inverse.
void expect_receiver_keeps_its_promises(const Group& group, const Received& received) {
  int64_t slot = 0;
  for (int64_t expert = 0; expert < group.local(); ++expert) {
    int64_t arrival = 0, first_row = 0;
    for (int64_t source = 0; source < group.ranks; ++source) {
      const int64_t* const counts = received.counts.data() + source * (group.local() + 1);
      for (int64_t e = 0; e < group.local(); ++e) {
        for (int64_t i = 0; i < counts[e]; ++i, ++arrival) {
          if (e != expert) continue;
          ASSERT_EQ(received.slot_arrival[at(slot)], arrival);
          EXPECT_EQ(received.slot_row[at(slot)], first_row + received.messages[at(arrival)].row);
          EXPECT_EQ(received.slot_weight[at(slot++)], received.messages[at(arrival)].weight);
        }
      }
      first_row += counts[group.local()];
    }
  }
  ASSERT_EQ(slot, received.slots);
  ASSERT_EQ(received.row_begin.front(), 0);
  ASSERT_EQ(received.row_begin.back(), received.slots);
  for (int64_t row = 0; row < received.rows; ++row) {
    for (int64_t e = received.row_begin[at(row)]; e < received.row_begin[at(row + 1)]; ++e) {
      EXPECT_EQ(received.slot_row[at(received.row_slot[at(e)])], row);
      if (e == received.row_begin[at(row)]) continue;
      EXPECT_LT(received.row_slot[at(e - 1)], received.row_slot[at(e)]);
    }
  }
}

TEST_P(RoutePlanTest, ListsKeepTheirPromises) {
  for (const Group& group : groups()) {
    SCOPED_TRACE(group.name());
    const Exchange exchange(*GetParam(), group);
    for (size_t rank = 0; rank < at(group.ranks); ++rank) {
      expect_sender_keeps_its_promises(group, exchange.routing[rank], exchange.sent[rank]);
      expect_receiver_keeps_its_promises(group, exchange.received[rank]);
    }
  }
}

/// A made-up expert: what it answers to a token of a rank.
double answer(int64_t expert, int64_t rank, int64_t token) {
  return static_cast<double>((expert + 1) * 1000003 + rank * 10007 + token);
}

TEST_P(RoutePlanTest, TokensComeBackWithTheAnswersOfTheirExperts) {
  for (const Group& group : groups()) {
    SCOPED_TRACE(group.name());
    const Exchange exchange(*GetParam(), group);
    std::vector<std::vector<double>> returned(at(group.ranks));  // per source, the rows that it sent
    for (int64_t rank = 0; rank < group.ranks; ++rank) {
      const Received& received = exchange.received[at(rank)];
      std::vector<std::pair<int64_t, int64_t>> rows;  // source and token of each received row
      for (int64_t source = 0; source < group.ranks; ++source) {
        const Sent& sent = exchange.sent[at(source)];
        int64_t first = 0;
        for (int64_t r = 0; r < rank; ++r) first += sent.rows_to(r);
        for (int64_t i = 0; i < sent.rows_to(rank); ++i) rows.emplace_back(source, sent.sent_token[at(first + i)]);
      }
      std::vector<int64_t> expert_of;
      for (int64_t e = 0; e < group.local(); ++e)
        for (const Sent& sent : exchange.sent)
          expert_of.insert(expert_of.end(), at(sent.slots_of(rank * group.local() + e)), rank * group.local() + e);
      for (int64_t row = 0; row < received.rows; ++row) {
        const auto [source, token] = rows[at(row)];
        double sum = 0;
        for (int64_t e = received.row_begin[at(row)]; e < received.row_begin[at(row + 1)]; ++e) {
          const int64_t slot = received.row_slot[at(e)];
          sum += static_cast<double>(received.slot_weight[at(slot)]) * answer(expert_of[at(slot)], source, token);
        }
        returned[at(source)].push_back(sum);
      }
    }
    for (int64_t rank = 0; rank < group.ranks; ++rank) {
      const Routing& routing = exchange.routing[at(rank)];
      const Sent& sent = exchange.sent[at(rank)];
      for (int64_t n = 0; n < routing.tokens; ++n) {
        double sum = 0, expected = 0;
        for (int64_t e = sent.token_begin[at(n)]; e < sent.token_begin[at(n + 1)]; ++e)
          sum += returned[at(rank)][at(sent.token_sent[at(e)])];
        for (int64_t slot = n * group.choices; slot < (n + 1) * group.choices; ++slot)
          if (routing.kept(slot))
            expected += static_cast<double>(routing.weights[at(slot)]) * answer(routing.index[at(slot)], rank, n);
        EXPECT_NEAR(sum, expected, 1e-6 * (1 + std::abs(expected))) << "token " << n << " of rank " << rank;
      }
    }
  }
}

}  // namespace
}  // namespace heddle::test
