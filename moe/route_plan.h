// Who sends what where: the plan of one exchange of tokens, made once per visit of a Mixture-of-Experts layer and used
// four times (dispatch and combine, forward and backward).
//
// A token travels once to every rank that owns at least one of its chosen experts, however many live there. Slots are
// (token, choice) pairs that were not dropped. The sender lists, per destination rank, the rows it sends (tokens in
// rising order) and the slots (by expert, then token); the receiver orders all slots it got by expert, then source
// rank, then token, so that each local expert owns a contiguous range.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "kernels/kernels.h"
#include "tensor/tensor.h"

namespace heddle {

/// Most rows and slots that a visit has seen so far: what its buffers are made for, so that their sizes settle.
struct RowMarks {
  int64_t sent_rows = 0, received_rows = 0, received_slots = 0;
  bool operator==(const RowMarks&) const = default;
};

/// Counts are on the host, lists where the tokens are: int64, but slot_weight. Lists may be longer than what they hold.
struct RoutePlan {
  // Sender: this rank's tokens.
  int64_t tokens = 0;
  int64_t choices = 0;  ///< k, slots per token
  int64_t sent_rows = 0, sent_slots = 0;
  std::vector<int64_t> send_rows;   ///< rows per destination rank
  std::vector<int64_t> send_slots;  ///< slots per destination rank
  Tensor sent_token;                ///< token of each sent row
  Tensor token_begin;               ///< [tokens + 1]: the sent rows of token n are token_sent[token_begin[n] ..)
  Tensor token_sent;
  Tensor sent_slot;  ///< token * choices + choice of each sent slot

  // Receiver: rows and slots for the experts of this rank.
  std::vector<int64_t> receive_rows;   ///< rows per source rank
  std::vector<int64_t> receive_slots;  ///< slots per source rank
  int64_t received_rows = 0;
  int64_t received_slots = 0;
  std::shared_ptr<const std::vector<int64_t>> expert_offsets;  ///< [local experts + 1], in slots
  Tensor slot_row;                                             ///< received row that each slot (expert order) reads
  Tensor slot_arrival;  ///< position of each slot (expert order) in arrival order
  Tensor row_begin;     ///< [received_rows + 1]: slots of row r are row_slot[row_begin[r] ..)
  Tensor row_slot;
  Tensor slot_weight;  ///< float32, mixing weight of each slot, expert order

  RowMarks capacity;  ///< rows for which buffers are made, at least those of this plan

  bool local() const { return send_rows.size() == 1; }  ///< one rank: rows are the tokens themselves, nothing travels
};

/// What is planned: index int32 [N,k] global expert numbers; keep uint8 [N,k] or undefined (all kept); weights [N,k].
struct RouteChoice {
  Tensor index, keep, weights;
};

/// Plans of some choices, of equally many on every rank. Collective over `group`: one exchange of counts for all, for
/// which the host waits, then one of row number and weight of each slot per plan. Experts are split evenly over the
/// ranks of the group, in order. `marks` of the visit are raised where a plan exceeds them, and become its capacity;
/// null: the plan's own sizes are.
std::vector<std::shared_ptr<const RoutePlan>> make_route_plans(const Kernels& kernels, Communicator& group,
                                                               int64_t experts, const std::vector<RouteChoice>& choices,
                                                               RowMarks* marks = nullptr);
/// One plan.
std::shared_ptr<const RoutePlan> make_route_plan(const Kernels& kernels, Communicator& group, int64_t experts,
                                                 const Tensor& index, const Tensor& keep, const Tensor& weights,
                                                 RowMarks* marks = nullptr);

}  // namespace heddle
