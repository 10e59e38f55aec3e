#include "moe/route_plan.h"

#include <numeric>

#include "support/narrow.h"

namespace heddle {

namespace {

/// What travels ahead of the rows, one per slot.
struct SlotMessage {
  int32_t row;  ///< among the rows that this sender sends to this receiver
  float weight;
};

std::vector<int64_t> starts_of(const std::vector<int64_t>& counts) {
  std::vector<int64_t> starts(counts.size() + 1, 0);
  std::partial_sum(counts.begin(), counts.end(), starts.begin() + 1);
  return starts;
}

/// Lists of the sender: fills the first half of the plan, the messages, and the slots per expert.
void list_sent(RoutePlan& plan, int64_t ranks, int64_t experts, const int32_t* index, const uint8_t* keep,
               const float* weights, std::vector<SlotMessage>& messages, std::vector<int64_t>& slots_per_expert) {
  const int64_t per_rank = experts / ranks, slots = plan.tokens * plan.choices;
  slots_per_expert.assign(static_cast<size_t>(experts), 0);
  plan.send_rows.assign(static_cast<size_t>(ranks), 0);
  plan.send_slots.assign(static_cast<size_t>(ranks), 0);
  const auto used = [&](int64_t slot) { return keep == nullptr || keep[slot] != 0; };

  // Rows: the last token noted per rank tells whether the row is on its way already.
  std::vector<int64_t> last_token(static_cast<size_t>(ranks), -1);
  int64_t sent_rows = 0;
  for (int64_t slot = 0; slot < slots; ++slot) {
    if (!used(slot)) continue;
    const int64_t expert = index[slot], rank = expert / per_rank, token = slot / plan.choices;
    ++slots_per_expert[expert];
    ++plan.send_slots[rank];
    if (last_token[rank] == token) continue;
    last_token[rank] = token;
    ++plan.send_rows[rank];
    ++sent_rows;
  }

  const std::vector<int64_t> row_start = starts_of(plan.send_rows), slot_start = starts_of(slots_per_expert);
  std::vector<int64_t> next_row(row_start.begin(), row_start.end() - 1);
  std::vector<int64_t> next_slot(slot_start.begin(), slot_start.end() - 1);
  plan.sent_token.resize(sent_rows);
  plan.token_sent.reserve(sent_rows);
  plan.token_begin.assign(1, 0);
  plan.sent_slot.resize(slot_start.back());
  messages.resize(slot_start.back());
  std::fill(last_token.begin(), last_token.end(), -1);
  for (int64_t token = 0; token < plan.tokens; ++token) {
    for (int64_t slot = token * plan.choices; slot < (token + 1) * plan.choices; ++slot) {
      if (!used(slot)) continue;
      const int64_t expert = index[slot], rank = expert / per_rank;
      if (last_token[rank] != token) {
        last_token[rank] = token;
        plan.sent_token[next_row[rank]] = token;
        plan.token_sent.push_back(next_row[rank]);
        ++next_row[rank];
      }
      const int64_t place = next_slot[expert]++;
      plan.sent_slot[place] = slot;
      messages[place] = {narrow<int32_t>(next_row[rank] - 1 - row_start[rank]), weights[slot]};
    }
    plan.token_begin.push_back(static_cast<int64_t>(plan.token_sent.size()));
  }
}

/// Lists of the receiver from the counts [ranks][local experts + 1] and the messages in arrival order.
void list_received(RoutePlan& plan, int64_t ranks, int64_t per_rank, const std::vector<int64_t>& counts,
                   const std::vector<SlotMessage>& messages) {
  const auto count_of = [&](int64_t source, int64_t expert) { return counts[source * (per_rank + 1) + expert]; };
  const std::vector<int64_t> row_start = starts_of(plan.receive_rows), arrival_start = starts_of(plan.receive_slots);
  std::vector<int64_t> offsets(1, 0);
  plan.slot_row.reserve(messages.size());
  plan.slot_arrival.reserve(messages.size());
  plan.slot_weight.reserve(messages.size());
  std::vector<int64_t> arrival(arrival_start.begin(), arrival_start.end() - 1);  // next unread slot of each source
  for (int64_t expert = 0; expert < per_rank; ++expert) {
    for (int64_t source = 0; source < ranks; ++source) {
      for (int64_t i = 0; i < count_of(source, expert); ++i) {
        const int64_t at = arrival[source]++;
        plan.slot_arrival.push_back(at);
        plan.slot_row.push_back(row_start[source] + messages[at].row);
        plan.slot_weight.push_back(messages[at].weight);
      }
    }
    offsets.push_back(static_cast<int64_t>(plan.slot_row.size()));
  }
  plan.expert_offsets = std::make_shared<const std::vector<int64_t>>(std::move(offsets));

  std::vector<int64_t> per_row(static_cast<size_t>(plan.received_rows), 0);
  for (const int64_t row : plan.slot_row) ++per_row[row];
  plan.row_begin = starts_of(per_row);
  plan.row_slot.resize(plan.slot_row.size());
  std::vector<int64_t> next(plan.row_begin.begin(), plan.row_begin.end() - 1);
  for (size_t slot = 0; slot < plan.slot_row.size(); ++slot)
    plan.row_slot[next[plan.slot_row[slot]]++] = static_cast<int64_t>(slot);
}

void set_capacity(RoutePlan& plan, RowMarks* marks) {
  plan.capacity = {static_cast<int64_t>(plan.sent_token.size()), plan.received_rows, plan.received_slots};
  if (marks == nullptr) return;
  for (int64_t RowMarks::*mark : {&RowMarks::sent_rows, &RowMarks::received_rows, &RowMarks::received_slots})
    plan.capacity.*mark = marks->*mark = std::max(marks->*mark, plan.capacity.*mark);
}

}  // namespace

std::shared_ptr<const RoutePlan> make_route_plan(Communicator& group, int64_t experts, const Tensor& index,
                                                 const Tensor& keep, const Tensor& weights, RowMarks* marks) {
  const int64_t ranks = group.size(), per_rank = div_exact(experts, ranks, "experts over the ranks of a group");
  auto plan = std::make_shared<RoutePlan>();
  plan->tokens = index.dim(0);
  plan->choices = index.dim(1);
  std::vector<SlotMessage> sent;
  std::vector<int64_t> slots_per_expert;
  list_sent(*plan, ranks, experts, index.i32(), keep.u8(), weights.f32(), sent, slots_per_expert);

  if (ranks == 1) {
    // Rows are tokens themselves: a row index is the token, also for tokens whose slots were all dropped.
    plan->receive_rows = {plan->tokens};
    plan->receive_slots = plan->send_slots;
    plan->received_rows = plan->tokens;
    plan->received_slots = plan->send_slots[0];
    for (size_t i = 0; i < sent.size(); ++i) sent[i].row = narrow<int32_t>(plan->sent_slot[i] / plan->choices);
    slots_per_expert.push_back(plan->tokens);
    list_received(*plan, 1, experts, slots_per_expert, sent);
    set_capacity(*plan, marks);
    return plan;
  }

  std::vector<int64_t> counts_out, counts_in(static_cast<size_t>(ranks * (per_rank + 1)));
  for (int64_t rank = 0; rank < ranks; ++rank) {
    counts_out.insert(counts_out.end(), slots_per_expert.begin() + rank * per_rank,
                      slots_per_expert.begin() + (rank + 1) * per_rank);
    counts_out.push_back(plan->send_rows[rank]);
  }
  group.exchange_counts(counts_out, per_rank + 1, counts_in);
  for (int64_t source = 0; source < ranks; ++source) {
    const auto first = counts_in.begin() + source * (per_rank + 1);
    plan->receive_slots.push_back(std::accumulate(first, first + per_rank, int64_t{0}));
    plan->receive_rows.push_back(*(first + per_rank));
    plan->received_slots += plan->receive_slots.back();
    plan->received_rows += plan->receive_rows.back();
  }
  std::vector<SlotMessage> received(static_cast<size_t>(plan->received_slots));
  group.exchange_rows(sent.data(), plan->send_slots, received.data(), plan->receive_slots, sizeof(SlotMessage));
  list_received(*plan, ranks, per_rank, counts_in, received);
  set_capacity(*plan, marks);
  return plan;
}

}  // namespace heddle
