// Reference lists of an exchange, each by its definition: for everyone who owns it, all slots are walked.
#include <cstddef>
#include <vector>

#include "kernels/ref/operations.h"

namespace heddle::ref {

namespace {

bool used(const uint8_t* keep, int64_t slot) {
  return keep == nullptr || keep[slot] != 0;
}

/// The first choice of `token` that goes to `rank`, or -1.
int64_t first_choice(const RouteShape& s, const int32_t* index, const uint8_t* keep, int64_t token, int64_t rank) {
  for (int64_t slot = token * s.choices; slot < (token + 1) * s.choices; ++slot)
    if (used(keep, slot) && index[slot] / s.experts_per_rank() == rank) return slot;
  return -1;
}

bool is_row(const RouteShape& s, const int32_t* index, const uint8_t* keep, int64_t token, int64_t rank) {
  return s.ranks == 1 || first_choice(s, index, keep, token, rank) >= 0;
}

}  // namespace

void route_count(const RouteShape& s, const int32_t* index, const uint8_t* keep, int64_t* counts) {
  const int64_t local = s.experts_per_rank();
  for (int64_t rank = 0; rank < s.ranks; ++rank) {
    for (int64_t e = 0; e < local; ++e) {
      int64_t& count = counts[rank * (local + 1) + e] = 0;
      for (int64_t slot = 0; slot < s.tokens * s.choices; ++slot)
        count += used(keep, slot) && index[slot] == rank * local + e;
    }
    int64_t& rows = counts[rank * (local + 1) + local] = 0;
    for (int64_t token = 0; token < s.tokens; ++token) rows += is_row(s, index, keep, token, rank);
  }
}

void route_send(const RouteShape& s, const int32_t* index, const uint8_t* keep, const float* weights, const int64_t*,
                int64_t* sent_token, int64_t* token_begin, int64_t* token_sent, int64_t* sent_slot,
                RouteMessage* messages) {
  const int64_t local = s.experts_per_rank();
  std::vector<int64_t> row_of(static_cast<size_t>(s.ranks * s.tokens)), begin(1, 0);
  int64_t row = 0, place = 0, entry = 0;
  for (int64_t rank = 0; rank < s.ranks; ++rank) {
    for (int64_t token = 0; token < s.tokens; ++token) {
      if (!is_row(s, index, keep, token, rank)) continue;
      row_of[static_cast<size_t>(rank * s.tokens + token)] = row;
      sent_token[row++] = token;
    }
    begin.push_back(row);
  }
  for (int64_t expert = 0; expert < s.experts; ++expert) {
    for (int64_t slot = 0; slot < s.tokens * s.choices; ++slot) {
      if (!used(keep, slot) || index[slot] != expert) continue;
      const int64_t rank = expert / local, token = slot / s.choices;
      const int64_t sent = row_of[static_cast<size_t>(rank * s.tokens + token)] - begin[static_cast<size_t>(rank)];
      sent_slot[place] = slot;
      messages[place++] = {static_cast<int32_t>(sent), weights[slot]};
    }
  }
  for (int64_t token = 0; token < s.tokens; ++token) {
    token_begin[token] = entry;
    for (int64_t slot = token * s.choices; slot < (token + 1) * s.choices; ++slot) {
      const int64_t rank = index[slot] / local;
      if (first_choice(s, index, keep, token, rank) == slot)
        token_sent[entry++] = row_of[static_cast<size_t>(rank * s.tokens + token)];
    }
  }
  token_begin[s.tokens] = entry;
}

void route_receive(const RouteShape& s, int64_t rows, int64_t slots, const int64_t* counts,
                   const RouteMessage* messages, int64_t* slot_row, int64_t* slot_arrival, float* slot_weight,
                   int64_t* row_begin, int64_t* row_slot) {
  const int64_t local = s.experts_per_rank();
  int64_t slot = 0;
  for (int64_t expert = 0; expert < local; ++expert) {
    int64_t first_row = 0, arrival = 0;
    for (int64_t source = 0; source < s.ranks; ++source) {
      for (int64_t e = 0; e < local; ++e) {
        for (int64_t i = 0; i < counts[source * (local + 1) + e]; ++i, ++arrival) {
          if (e != expert) continue;
          slot_row[slot] = first_row + messages[arrival].row;
          slot_weight[slot] = messages[arrival].weight;
          slot_arrival[slot++] = arrival;
        }
      }
      first_row += counts[source * (local + 1) + local];
    }
  }
  int64_t entry = 0;
  for (int64_t row = 0; row < rows; ++row) {
    row_begin[row] = entry;
    for (int64_t i = 0; i < slots; ++i)
      if (slot_row[i] == row) row_slot[entry++] = i;
  }
  row_begin[rows] = entry;
}

void count_choices(int64_t slots, int64_t experts, const int32_t* index, const uint8_t* keep, int64_t* counts) {
  for (int64_t e = 0; e < experts; ++e)
    for (int64_t slot = 0; slot < slots; ++slot) counts[e] += used(keep, slot) && index[slot] == e;
}

void keep_largest(int64_t tokens, int64_t choices, int64_t, int64_t capacity, const int32_t* index,
                  const float* weights, uint8_t* keep) {
  const int64_t slots = tokens * choices;
  for (int64_t slot = 0; slot < slots; ++slot) {
    int64_t before = 0;
    for (int64_t other = 0; other < slots; ++other)
      before += index[other] == index[slot] &&
                (weights[other] > weights[slot] || (weights[other] == weights[slot] && other < slot));
    keep[slot] = before < capacity;
  }
}

}  // namespace heddle::ref
