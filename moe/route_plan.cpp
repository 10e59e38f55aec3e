#include "moe/route_plan.h"

#include <algorithm>
#include <numeric>

#include "support/narrow.h"

namespace heddle {

namespace {

Tensor list(int64_t entries, int64_t capacity, DType type = DType::kInt64) {
  return Tensor::empty({entries}, Purpose::kExchange, type, capacity);
}

/// Room for messages: the lists of kernels/route_plan.h are typed, and the exchange moves bytes.
Tensor message_room(int64_t slots, int64_t capacity) {
  static_assert(sizeof(RouteMessage) == 8);
  return list(slots, capacity);
}
RouteMessage* messages_of(const Tensor& room) {
  return reinterpret_cast<RouteMessage*>(room.i64());
}

/// Splits the counts of all ranks, each the slots of its experts and then the rows, into rows and slots per rank.
void split_counts(const std::vector<int64_t>& counts, int64_t local, std::vector<int64_t>& rows,
                  std::vector<int64_t>& slots) {
  for (auto first = counts.begin(); first != counts.end(); first += local + 1) {
    slots.push_back(std::accumulate(first, first + local, int64_t{0}));
    rows.push_back(*(first + local));
  }
}

int64_t total(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

/// [local experts + 1]: where the slots of each expert start.
std::shared_ptr<const std::vector<int64_t>> offsets_of(const std::vector<int64_t>& counts, int64_t local) {
  std::vector<int64_t> offsets(static_cast<size_t>(local + 1), 0);
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto expert = static_cast<int64_t>(i) % (local + 1);
    if (expert < local) offsets[static_cast<size_t>(expert + 1)] += counts[i];
  }
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  return std::make_shared<const std::vector<int64_t>>(std::move(offsets));
}

void set_capacity(RoutePlan& plan, RowMarks* marks) {
  plan.capacity = {plan.sent_rows, plan.received_rows, plan.received_slots};
  if (marks == nullptr) return;
  for (int64_t RowMarks::*mark : {&RowMarks::sent_rows, &RowMarks::received_rows, &RowMarks::received_slots})
    plan.capacity.*mark = marks->*mark = std::max(marks->*mark, plan.capacity.*mark);
}

/// One choice on its way to a plan: its counts of all ranks are known.
std::shared_ptr<const RoutePlan> finish_plan(const Kernels& k, Communicator& group, const RouteShape& shape,
                                             const RouteChoice& choice, const Tensor& sent_counts,
                                             const std::vector<int64_t>& counts_out,
                                             const std::vector<int64_t>& counts_in, RowMarks* marks) {
  const int64_t local = shape.experts / shape.ranks;
  auto plan = std::make_shared<RoutePlan>();
  plan->tokens = shape.tokens;
  plan->choices = shape.choices;
  const int64_t slots = choice.index.count(), most_rows = std::max(slots, plan->tokens);
  split_counts(counts_out, local, plan->send_rows, plan->send_slots);
  split_counts(counts_in, local, plan->receive_rows, plan->receive_slots);
  plan->sent_rows = total(plan->send_rows);
  plan->sent_slots = total(plan->send_slots);
  plan->received_rows = total(plan->receive_rows);
  plan->received_slots = total(plan->receive_slots);
  plan->expert_offsets = offsets_of(counts_in, local);
  set_capacity(*plan, marks);

  plan->sent_token = list(most_rows, 0);
  plan->token_begin = list(plan->tokens + 1, 0);
  plan->token_sent = list(most_rows, 0);
  plan->sent_slot = list(slots, 0);
  const Tensor sent = message_room(slots, 0);
  k.route_send(shape, choice.index.i32(), choice.keep.u8(), choice.weights.f32(), sent_counts.i64(),
               plan->sent_token.i64(), plan->token_begin.i64(), plan->token_sent.i64(), plan->sent_slot.i64(),
               messages_of(sent));

  Tensor received = sent, received_counts = sent_counts;
  if (shape.ranks > 1) {
    received_counts = list(shape.ranks * (local + 1), 0);
    received_counts.set<int64_t>(counts_in);
    received = message_room(plan->received_slots, plan->capacity.received_slots);
    group.exchange_rows(messages_of(sent), plan->send_slots, messages_of(received), plan->receive_slots,
                        sizeof(RouteMessage));
  }
  plan->slot_row = list(plan->received_slots, plan->capacity.received_slots);
  plan->slot_arrival = list(plan->received_slots, plan->capacity.received_slots);
  plan->slot_weight = list(plan->received_slots, plan->capacity.received_slots, DType::kFloat32);
  plan->row_begin = list(plan->received_rows + 1, plan->capacity.received_rows + 1);
  plan->row_slot = list(plan->received_slots, plan->capacity.received_slots);
  k.route_receive(shape, plan->received_rows, plan->received_slots, received_counts.i64(), messages_of(received),
                  plan->slot_row.i64(), plan->slot_arrival.i64(), plan->slot_weight.f32(), plan->row_begin.i64(),
                  plan->row_slot.i64());
  return plan;
}

/// Numbers [outer, inner, width] to [inner, outer, width].
std::vector<int64_t> turned(const std::vector<int64_t>& numbers, size_t outer, size_t inner) {
  const size_t width = numbers.size() / (outer * inner);
  std::vector<int64_t> result;
  for (size_t i = 0; i < inner; ++i)
    for (size_t o = 0; o < outer; ++o) {
      const auto from = numbers.begin() + static_cast<std::ptrdiff_t>((o * inner + i) * width);
      result.insert(result.end(), from, from + static_cast<std::ptrdiff_t>(width));
    }
  return result;
}

}  // namespace

std::vector<std::shared_ptr<const RoutePlan>> make_route_plans(const Kernels& k, Communicator& group, int64_t experts,
                                                               const std::vector<RouteChoice>& choices,
                                                               RowMarks* marks) {
  const int64_t ranks = group.size(), local = div_exact(experts, ranks, "experts over the ranks of a group");
  const int64_t per_plan = ranks * (local + 1);
  const auto plans = static_cast<int64_t>(choices.size());
  const Tensor sent_counts = list(plans * per_plan, 0);
  std::vector<RouteShape> shapes;
  for (int64_t p = 0; p < plans; ++p) {
    const RouteChoice& choice = choices[static_cast<size_t>(p)];
    shapes.push_back({choice.index.dim(0), choice.index.dim(1), experts, ranks});
    k.route_count(shapes.back(), choice.index.i32(), choice.keep.u8(), sent_counts.i64() + p * per_plan);
  }
  // The one moment when the host waits for the device: it must know how much to receive.
  const std::vector<int64_t> out = sent_counts.get<int64_t>();
  std::vector<int64_t> in = out;
  if (ranks > 1) {
    // By rank for the exchange, by plan elsewhere.
    const auto by_rank = turned(out, static_cast<size_t>(plans), static_cast<size_t>(ranks));
    std::vector<int64_t> received(by_rank.size());
    group.exchange_counts(by_rank, plans * (local + 1), received);
    in = turned(received, static_cast<size_t>(ranks), static_cast<size_t>(plans));
  }
  std::vector<std::shared_ptr<const RoutePlan>> result;
  for (int64_t p = 0; p < plans; ++p) {
    const auto of_plan = [&](const std::vector<int64_t>& all) {
      const auto from = all.begin() + static_cast<std::ptrdiff_t>(p * per_plan);
      return std::vector<int64_t>(from, from + static_cast<std::ptrdiff_t>(per_plan));
    };
    result.push_back(finish_plan(k, group, shapes[static_cast<size_t>(p)], choices[static_cast<size_t>(p)],
                                 sent_counts.flat(p * per_plan, {per_plan}), of_plan(out), of_plan(in), marks));
  }
  return result;
}

std::shared_ptr<const RoutePlan> make_route_plan(const Kernels& k, Communicator& group, int64_t experts,
                                                 const Tensor& index, const Tensor& keep, const Tensor& weights,
                                                 RowMarks* marks) {
  return make_route_plans(k, group, experts, {{index, keep, weights}}, marks)[0];
}

}  // namespace heddle
