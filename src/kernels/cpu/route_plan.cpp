// Lists of an exchange, each made in one or two passes over the slots.
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/cpu/operations.h"
#include "support/narrow.h"

namespace heddle::cpu {

namespace {

using Numbers = std::vector<int64_t>;

bool used(const uint8_t* keep, int64_t slot) {
  return keep == nullptr || keep[slot] != 0;
}

/// Calls visit(slot, rank, whether it is the token's first there) for every used slot, in order.
template <typename Visit>
void for_each_slot(const RouteShape& s, const int32_t* index, const uint8_t* keep, const Visit& visit) {
  Numbers last_token(static_cast<size_t>(s.ranks), -1);
  for (int64_t token = 0; token < s.tokens; ++token) {
    for (int64_t slot = token * s.choices; slot < (token + 1) * s.choices; ++slot) {
      if (!used(keep, slot)) continue;
      const int64_t rank = index[slot] / s.experts_per_rank();
      visit(slot, rank, std::exchange(last_token[static_cast<size_t>(rank)], token) != token);
    }
  }
}

}  // namespace

void route_count(const RouteShape& s, const int32_t* index, const uint8_t* keep, int64_t* counts) {
  const int64_t local = s.experts_per_rank();
  std::fill_n(counts, s.ranks * (local + 1), int64_t{0});
  for_each_slot(s, index, keep, [&](int64_t slot, int64_t rank, bool first) {
    ++counts[rank * (local + 1) + index[slot] % local];
    if (first) ++counts[rank * (local + 1) + local];
  });
  if (s.ranks == 1) counts[local] = s.tokens;
}

void route_send(const RouteShape& s, const int32_t* index, const uint8_t* keep, const float* weights,
                const int64_t* counts, int64_t* sent_token, int64_t* token_begin, int64_t* token_sent,
                int64_t* sent_slot, RouteMessage* messages) {
  const int64_t local = s.experts_per_rank();
  Numbers row_start(static_cast<size_t>(s.ranks)), next_row, next_slot(static_cast<size_t>(s.experts));
  int64_t rows = 0, slots = 0;
  for (int64_t rank = 0; rank < s.ranks; ++rank) {
    row_start[static_cast<size_t>(rank)] = rows;
    rows += counts[rank * (local + 1) + local];
    for (int64_t e = 0; e < local; ++e) {
      next_slot[static_cast<size_t>(rank * local + e)] = slots;
      slots += counts[rank * (local + 1) + e];
    }
  }
  next_row = row_start;
  Numbers last_row(static_cast<size_t>(s.ranks));
  std::fill_n(token_begin, s.tokens + 1, int64_t{0});
  int64_t entry = 0;
  for_each_slot(s, index, keep, [&](int64_t slot, int64_t rank, bool first) {
    const auto r = static_cast<size_t>(rank);
    const int64_t token = slot / s.choices;
    if (first) {
      last_row[r] = s.ranks == 1 ? token : next_row[r]++;
      sent_token[last_row[r]] = token;
      token_sent[entry++] = last_row[r];
      ++token_begin[token + 1];
    }
    const int64_t place = next_slot[static_cast<size_t>(index[slot])]++;
    sent_slot[place] = slot;
    messages[place] = {narrow<int32_t>(last_row[r] - row_start[r]), weights[slot]};
  });
  if (s.ranks == 1) std::iota(sent_token, sent_token + s.tokens, int64_t{0});
  std::partial_sum(token_begin, token_begin + s.tokens + 1, token_begin);
}

void route_receive(const RouteShape& s, int64_t rows, int64_t slots, const int64_t* counts,
                   const RouteMessage* messages, int64_t* slot_row, int64_t* slot_arrival, float* slot_weight,
                   int64_t* row_begin, int64_t* row_slot) {
  const int64_t local = s.experts_per_rank();
  Numbers first_row(static_cast<size_t>(s.ranks)), arrival(first_row.size());  // next unread slot of each source
  int64_t row = 0, at = 0;
  for (int64_t source = 0; source < s.ranks; ++source) {
    const int64_t* const count = counts + source * (local + 1);
    first_row[static_cast<size_t>(source)] = row;
    arrival[static_cast<size_t>(source)] = at;
    row += count[local];
    at = std::accumulate(count, count + local, at);
  }
  std::fill_n(row_begin, rows + 1, int64_t{0});
  int64_t slot = 0;
  for (int64_t expert = 0; expert < local; ++expert) {
    for (int64_t source = 0; source < s.ranks; ++source) {
      for (int64_t i = 0; i < counts[source * (local + 1) + expert]; ++i, ++slot) {
        const int64_t from = arrival[static_cast<size_t>(source)]++;
        slot_arrival[slot] = from;
        slot_row[slot] = first_row[static_cast<size_t>(source)] + messages[from].row;
        slot_weight[slot] = messages[from].weight;
        ++row_begin[slot_row[slot] + 1];
      }
    }
  }
  std::partial_sum(row_begin, row_begin + rows + 1, row_begin);
  Numbers next(row_begin, row_begin + rows);
  for (int64_t i = 0; i < slots; ++i) row_slot[next[static_cast<size_t>(slot_row[i])]++] = i;
}

void count_choices(int64_t slots, int64_t, const int32_t* index, const uint8_t* keep, int64_t* counts) {
  for (int64_t slot = 0; slot < slots; ++slot)
    if (used(keep, slot)) ++counts[index[slot]];
}

void keep_largest(int64_t tokens, int64_t choices, int64_t experts, int64_t capacity, const int32_t* index,
                  const float* weights, uint8_t* keep) {
  const int64_t slots = tokens * choices;
  std::vector<Numbers> of_expert(static_cast<size_t>(experts));
  for (int64_t slot = 0; slot < slots; ++slot) of_expert[static_cast<size_t>(index[slot])].push_back(slot);
  std::fill_n(keep, slots, uint8_t{1});
  for (Numbers& list : of_expert) {
    if (static_cast<int64_t>(list.size()) <= capacity) continue;
    std::stable_sort(list.begin(), list.end(), [=](int64_t a, int64_t b) { return weights[a] > weights[b]; });
    for (size_t i = static_cast<size_t>(capacity); i < list.size(); ++i) keep[list[i]] = 0;
  }
}

}  // namespace heddle::cpu
