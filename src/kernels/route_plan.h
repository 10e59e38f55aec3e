// The lists of one exchange of tokens between the ranks of an expert-parallel group (moe/route_plan.h says what they
// are for). Experts are split evenly over the ranks, in order. A slot is a (token, choice) pair that was not dropped; a
// row is a token on its way to a rank that owns at least one of its experts. For a rank alone every token is a row,
// also one without slots.
#pragma once

#include <cstdint>

namespace heddle {

struct RouteShape {
  int64_t tokens = 0;   ///< N of this rank
  int64_t choices = 0;  ///< k
  int64_t experts = 0;  ///< E, a multiple of ranks
  int64_t ranks = 0;    ///< P
  int64_t experts_per_rank() const { return experts / ranks; }
};

/// What travels ahead of the rows, one per slot.
struct RouteMessage {
  int32_t row;  ///< among the rows that this sender sends to this receiver
  float weight;
};

/// counts [P][E/P + 1]: slots of each expert of rank r, then rows to rank r. index [N,k] expert of each choice; keep
/// [N,k], nullptr: all kept.
using RouteCount = void(const RouteShape& shape, const int32_t* index, const uint8_t* keep, int64_t* counts);

/// The sender's lists, from the counts above. Memory for N k entries each (token_begin: N + 1):
///   sent_token   token of each row, by rank, then token
///   token_begin, token_sent   the rows of token n are token_sent[token_begin[n] ..), in the order of its choices
///   sent_slot    token * k + choice of each slot, by expert, then token
///   messages     of the slots in this order
using RouteSend = void(const RouteShape& shape, const int32_t* index, const uint8_t* keep, const float* weights,
                       const int64_t* counts, int64_t* sent_token, int64_t* token_begin, int64_t* token_sent,
                       int64_t* sent_slot, RouteMessage* messages);

/// The receiver's lists. counts [P][E/P + 1]: what each source announced; messages in arrival order: by source, then as
/// sent. Slots are ordered by expert, then source, then arrival; rows by source, then as sent:
///   slot_row      row that each slot reads
///   slot_arrival  place of each slot in arrival order
///   slot_weight   its weight
///   row_begin [rows + 1], row_slot   the slots of row r are row_slot[row_begin[r] ..), rising
using RouteReceive = void(const RouteShape& shape, int64_t rows, int64_t slots, const int64_t* counts,
                          const RouteMessage* messages, int64_t* slot_row, int64_t* slot_arrival, float* slot_weight,
                          int64_t* row_begin, int64_t* row_slot);

/// counts[e] += kept choices of expert e; index and keep [slots].
using CountChoices = void(int64_t slots, int64_t experts, const int32_t* index, const uint8_t* keep, int64_t* counts);

/// Keep flags [N,k] of experts that take at most `capacity` slots: those of largest weight, equal ones by lower token.
using KeepLargest = void(int64_t tokens, int64_t choices, int64_t experts, int64_t capacity, const int32_t* index,
                         const float* weights, uint8_t* keep);

}  // namespace heddle
