// Tokens between ranks: every slot arrives once at the owner of its expert, one row per (token, destination) travels,
// and the round trip gives what one rank would compute.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "moe/dispatch.h"
#include "tests/autograd/gradient_check.h"
#include "tests/distributed/world.h"

namespace heddle {
namespace {

constexpr int64_t kExperts = 8, kChoices = 3, kWidth = 6;

/// Routing of the tokens of all ranks; rank r has 5 + 3 r tokens, the last one none.
struct Tokens {
  int64_t count = 0;
  Tensor index, weights, keep, x;
};

Tokens tokens_of(int rank) {
  Tokens t;
  t.count = rank + 1 == test_world().size() ? 0 : 5 + 3 * rank;
  const auto stream = static_cast<uint32_t>(50 + rank);
  t.index = Tensor::empty({t.count, kChoices}, Purpose::kActivations, DType::kInt32);
  t.keep = Tensor::empty({t.count, kChoices}, Purpose::kActivations, DType::kUint8);
  t.weights = random_tensor({t.count, kChoices}, stream);
  t.x = random_tensor({t.count, kWidth}, stream + 100);
  for (int64_t n = 0; n < t.count; ++n) {
    for (int64_t j = 0; j < kChoices; ++j) {
      const int64_t slot = n * kChoices + j;
      const auto words = random_words(9, Draw::kTest, stream, static_cast<uint64_t>(n));
      t.index.i32()[slot] = static_cast<int32_t>((words[0] + static_cast<uint32_t>(j) * (1 + words[1] % 2)) % kExperts);
      t.keep.u8()[slot] = (words[2] >> j) % 4 != 0;
      if (t.keep.u8()[slot] == 0) t.weights.f32()[slot] = 0;
    }
  }
  return t;
}

std::shared_ptr<const RoutePlan> plan_of(const Tokens& t) {
  return make_route_plan(cpu::kernels(), test_world(), kExperts, t.index, t.keep, t.weights);
}

int64_t owner(int64_t expert) {
  return expert / (kExperts / test_world().size());
}

TEST(DistributedRoute, EverySlotArrivesOnceAtTheOwner) {
  const int me = test_world().rank(), ranks = test_world().size();
  const auto plan = plan_of(tokens_of(me));
  // Expected from all ranks' routing: slots by (expert, source, token), and rows by (source, token).
  std::vector<std::pair<int, int64_t>> rows;
  std::map<std::pair<int, int64_t>, int64_t> row_number;
  std::vector<int64_t> rows_from(static_cast<size_t>(ranks), 0);
  for (int source = 0; source < ranks; ++source) {
    const Tokens t = tokens_of(source);
    for (int64_t n = 0; n < t.count; ++n) {
      bool comes = false;
      for (int64_t j = 0; j < kChoices; ++j)
        comes |= t.keep.u8()[n * kChoices + j] != 0 && owner(t.index.i32()[n * kChoices + j]) == me;
      if (!comes) continue;
      row_number[{source, n}] = static_cast<int64_t>(row_number.size());
      ++rows_from[static_cast<size_t>(source)];
    }
  }
  std::vector<int64_t> slot_row, offsets{0};
  std::vector<float> slot_weight;
  for (int64_t e = 0; e < kExperts; ++e) {
    if (owner(e) != me) continue;
    for (int source = 0; source < ranks; ++source) {
      const Tokens t = tokens_of(source);
      for (int64_t slot = 0; slot < t.index.count(); ++slot) {
        if (t.keep.u8()[slot] == 0 || t.index.i32()[slot] != e) continue;
        slot_row.push_back(row_number.at({source, slot / kChoices}));
        slot_weight.push_back(t.weights.f32()[slot]);
      }
    }
    offsets.push_back(static_cast<int64_t>(slot_row.size()));
  }
  EXPECT_EQ(plan->receive_rows, rows_from);
  EXPECT_EQ(plan->received_rows, static_cast<int64_t>(row_number.size()));
  EXPECT_EQ(*plan->expert_offsets, offsets);
  EXPECT_EQ(plan->slot_row.get<int64_t>(), slot_row);
  EXPECT_EQ(plan->slot_weight.get<float>(), slot_weight);
}

TEST(DistributedRoute, OneRowPerTokenAndDestinationTravels) {
  const int me = test_world().rank();
  const Tokens t = tokens_of(me);
  int64_t rows = 0, slots = 0, naive_rows = 0;
  for (int64_t n = 0; n < t.count; ++n) {
    std::set<int64_t> destinations;
    for (int64_t j = 0; j < kChoices; ++j) {
      const int64_t slot = n * kChoices + j, to = owner(t.index.i32()[slot]);
      if (t.keep.u8()[slot] == 0 || to == me) continue;
      destinations.insert(to);
      ++slots;
    }
    rows += static_cast<int64_t>(destinations.size());
  }
  naive_rows = slots;

  int64_t before = test_world().traffic().exchange_bytes;
  const auto sent_since = [&] {
    const int64_t now = test_world().traffic().exchange_bytes, bytes = now - before;
    before = now;
    return bytes;
  };
  const auto plan = plan_of(t);
  EXPECT_EQ(sent_since(), slots * 8) << "row number and weight of each slot";
  Tape tape(cpu::kernels());
  const Variable x = tape.leaf(t.x), weights = tape.leaf(t.weights);
  const Variable arrived = Dispatch(tape, test_world(), plan, x).finish(tape);
  EXPECT_EQ(sent_since(), rows * kWidth * 4) << "dispatch";
  // Back go the rows that this rank received.
  int64_t foreign_rows = plan->received_rows - plan->receive_rows[static_cast<size_t>(me)];
  int64_t foreign_slots = plan->received_slots - plan->receive_slots[static_cast<size_t>(me)];
  const Variable y = Combine(tape, test_world(), plan, arrived, weights).finish(tape);
  EXPECT_EQ(sent_since(), foreign_rows * kWidth * 4) << "combine";
  pass_gradient(tape.kernels(), y.slot, random_tensor(y.value.shape(), 7));
  tape.backward();
  EXPECT_EQ(sent_since(), rows * kWidth * 4 + foreign_slots * 4 + foreign_rows * kWidth * 4)
      << "backward: rows out, weight gradients back, rows back";
  int64_t totals[2] = {rows, naive_rows};
  test_world().all_reduce_sum(std::span<int64_t>(totals));
  EXPECT_LT(totals[0], totals[1]) << "the case should have tokens with two experts on one foreign rank";
}

TEST(DistributedRoute, RoundTripEqualsOneRank) {
  // Experts multiply by their own matrix. The reference runs on this rank's tokens alone, with all experts.
  const Tokens t = tokens_of(test_world().rank());
  const Tensor all_weights = random_tensor({kExperts, kWidth, kWidth}, 500);
  const int64_t per_rank = kExperts / test_world().size();
  const auto run = [&](Communicator& group, const Tensor& expert_weights, Tensor& dx, Tensor& dw, Tensor& dexperts) {
    const auto plan = make_route_plan(cpu::kernels(), group, kExperts, t.index, t.keep, t.weights);
    Tape tape(cpu::kernels());
    const Variable x = tape.leaf(t.x), weights = tape.leaf(t.weights), experts = tape.leaf(expert_weights);
    const Variable rows = Dispatch(tape, group, plan, x).finish(tape);
    const Variable results = grouped_linear(tape, rows, experts, plan->expert_offsets);
    const Variable y = Combine(tape, group, plan, results, weights).finish(tape);
    pass_gradient(tape.kernels(), y.slot, random_tensor(y.value.shape(), 7));
    tape.backward();
    dx = take_gradient(x.slot);
    dw = take_gradient(weights.slot);
    dexperts = take_gradient(experts.slot);
    return y.value;
  };
  const auto expect_equal = [](const Tensor& found, const Tensor& expected, const char* what) {
    ASSERT_EQ(found.shape(), expected.shape()) << what;
    for (int64_t i = 0; i < expected.count(); ++i)
      EXPECT_NEAR(found.f32()[i], expected.f32()[i], 1e-4) << what << ' ' << i;
  };
  Tensor dx, dw, dexperts, dx_one, dw_one, dexperts_one;
  const Tensor y = run(test_world(), all_weights.rows(test_world().rank() * per_rank, per_rank), dx, dw, dexperts);
  const auto single = make_single_communicator();
  const Tensor y_one = run(*single, all_weights, dx_one, dw_one, dexperts_one);
  expect_equal(y, y_one, "output");
  expect_equal(dx, dx_one, "gradient of x");
  for (int64_t slot = 0; slot < dw.count(); ++slot)
    EXPECT_NEAR(dw.f32()[slot], dw_one.f32()[slot], 1e-4) << "weight of slot " << slot;
  // Gradients of experts hold the tokens of all ranks.
  test_world().all_reduce_sum(dexperts_one.floats());
  expect_equal(dexperts, dexperts_one.rows(test_world().rank() * per_rank, per_rank), "gradient of experts");
}

}  // namespace
}  // namespace heddle
