// Operations of a warp. Lanes bring their operands; the last lane of the mask computes all results.
#include <algorithm>
#include <bit>
#include <cstring>

#include <cuda_emulation/tensor_core.h>
#include <cuda_emulation/warp.h>

#include "runtime/copy_bytes.h"
#include "runtime/failure.h"
#include "runtime/matrix_product.h"
#include "runtime/sanitizers.h"
#include "runtime/thread_block.h"

namespace cuda_emulation {

namespace {

template <typename Visit>
void for_each_lane(unsigned mask, const Visit& visit) {
  for (unsigned rest = mask; rest != 0; rest &= rest - 1) visit(std::countr_zero(rest));
}

uint32_t word(const LaneOperands& lane) {
  uint32_t value;
  memcpy(&value, lane.in, sizeof(value));
  return value;
}

/// The lane whose value `lane` gets.
int source_lane(WarpOperation operation, int lane, int argument, int width) {
  const int begin = lane & ~(width - 1), end = begin + width;
  switch (operation) {
    case WarpOperation::kShuffle:
      return begin + (argument & (width - 1));
    case WarpOperation::kShuffleUp:
      return lane - argument < begin ? lane : lane - argument;
    case WarpOperation::kShuffleDown:
      return lane + argument >= end ? lane : lane + argument;
    default:  // kShuffleXor
      return (lane ^ argument) >= end ? lane : lane ^ argument;
  }
}

void shuffle_values(const PendingWarpOperation& operation, LaneOperands* lanes) {
  for_each_lane(operation.mask, [&](int lane) {
    const int source = source_lane(operation.operation, lane, lanes[lane].lane_argument, operation.width);
    if (!(operation.mask >> source & 1))
      fail("shuffle at %s:%u: lane %d reads lane %d, which is not in the mask %08x", operation.place.file_name(),
           operation.place.line(), lane, source, operation.mask);
    copy_bytes(lanes[lane].out, lanes[source].in, lanes[source].in_bytes);
  });
}

void match_values(unsigned mask, LaneOperands* lanes) {
  for_each_lane(mask, [&](int lane) {
    uint32_t equal = 0;
    for_each_lane(mask, [&](int other) {
      if (std::equal(lanes[lane].in, lanes[lane].in + 8, lanes[other].in)) equal |= 1u << other;
    });
    memcpy(lanes[lane].out, &equal, sizeof(equal));
  });
}

uint32_t combine(WarpOperation operation, uint32_t a, uint32_t b) {
  switch (operation) {
    case WarpOperation::kReduceAdd:
      return a + b;
    case WarpOperation::kReduceMin:
      return static_cast<int32_t>(b) < static_cast<int32_t>(a) ? b : a;
    case WarpOperation::kReduceMax:
      return static_cast<int32_t>(b) > static_cast<int32_t>(a) ? b : a;
    case WarpOperation::kReduceMinUnsigned:
      return b < a ? b : a;
    case WarpOperation::kReduceMaxUnsigned:
      return b > a ? b : a;
    case WarpOperation::kReduceAnd:
      return a & b;
    case WarpOperation::kReduceOr:
      return a | b;
    default:  // kReduceXor
      return a ^ b;
  }
}

void reduce_values(WarpOperation operation, unsigned mask, LaneOperands* lanes) {
  uint32_t result = 0;
  bool first = true;
  for_each_lane(mask, [&](int lane) {
    if (operation == WarpOperation::kBallot)
      result |= word(lanes[lane]) << lane;
    else
      result = first ? word(lanes[lane]) : combine(operation, result, word(lanes[lane]));
    first = false;
  });
  for_each_lane(mask, [&](int lane) { memcpy(lanes[lane].out, &result, sizeof(result)); });
}

void multiply_fragments(LaneOperands* lanes) {
  MatrixFragments fragments[kWarpSize];
  for (int lane = 0; lane < kWarpSize; ++lane) memcpy(&fragments[lane], lanes[lane].in, sizeof(MatrixFragments));
  matrix_product(fragments);
  for (int lane = 0; lane < kWarpSize; ++lane) memcpy(lanes[lane].out, fragments[lane].d, sizeof(fragments[lane].d));
}

/// Lane l brought row l % 8 of matrix l / 8.
void hand_out_matrices(bool transposed, LaneOperands* lanes) {
  for (int lane = 0; lane < kWarpSize; ++lane)
    for (int i = 0; i < 8; ++i) {
      const int matrix = i / 2, one = lane / 4, other = 2 * (lane % 4) + i % 2;
      const int row = transposed ? other : one, column = transposed ? one : other;
      memcpy(lanes[lane].out + 2 * i, lanes[8 * matrix + row].in + 2 * column, 2);
    }
}

void compute(const PendingWarpOperation& operation, LaneOperands* lanes) {
  switch (operation.operation) {
    case WarpOperation::kSync:
      break;
    case WarpOperation::kShuffle:
    case WarpOperation::kShuffleUp:
    case WarpOperation::kShuffleDown:
    case WarpOperation::kShuffleXor:
      shuffle_values(operation, lanes);
      break;
    case WarpOperation::kMatchAny:
      match_values(operation.mask, lanes);
      break;
    case WarpOperation::kMatrixProduct:
      multiply_fragments(lanes);
      break;
    case WarpOperation::kLoadMatrices:
    case WarpOperation::kLoadMatricesTransposed:
      hand_out_matrices(operation.operation == WarpOperation::kLoadMatricesTransposed, lanes);
      break;
    default:
      reduce_values(operation.operation, operation.mask, lanes);
  }
}

bool same_call(const PendingWarpOperation& pending, WarpOperation operation, int width, const Place& place) {
  return pending.operation == operation && pending.width == width && pending.place.line() == place.line() &&
         (pending.place.file_name() == place.file_name() || strcmp(pending.place.file_name(), place.file_name()) == 0);
}

void check_call(const Thread& me, const Warp& warp, unsigned mask, int width, const Place& place) {
  if (!(mask & me.lane_bit()))
    fail("warp operation at %s:%u: lane %d calls it and is not in the mask %08x", place.file_name(), place.line(),
         me.lane(), mask);
  if (mask & warp.ended)
    fail("warp operation at %s:%u: the mask %08x names lanes %08x, which have ended", place.file_name(), place.line(),
         mask, mask & warp.ended);
  if (width < 1 || width > kWarpSize || !std::has_single_bit(static_cast<unsigned>(width)))
    fail("shuffle at %s:%u: its width %d is not a power of two up to 32", place.file_name(), place.line(), width);
}

OrderToken* next_warp_token(int warp) {
  ThreadBlock& block = running_block();
  const unsigned begun = block.warps[static_cast<size_t>(warp)].syncs_begun++;
  return &block.block_order->warp_syncs[warp][begun % 2];
}

/// The operation that lanes of this mask have begun, or a new one.
PendingWarpOperation& find_or_begin(Warp& warp, WarpOperation operation, unsigned mask, int width, const Place& place,
                                    const Thread& me) {
  for (PendingWarpOperation& pending : warp.pending) {
    if ((pending.mask & mask) == 0) continue;
    if (pending.mask != mask)
      fail("warp operations with masks that overlap: %08x at %s:%u and %08x at %s:%u", pending.mask,
           pending.place.file_name(), pending.place.line(), mask, place.file_name(), place.line());
    if (!same_call(pending, operation, width, place))
      fail("divergent warp operation: lanes %08x are at %s:%u and lane %d at %s:%u", pending.arrived,
           pending.place.file_name(), pending.place.line(), me.lane(), place.file_name(), place.line());
    return pending;
  }
  OrderToken* const order_token = operation == WarpOperation::kSync ? next_warp_token(me.warp()) : nullptr;
  warp.pending.push_back({operation, mask, 0, width, place, order_token});
  return warp.pending.back();
}

}  // namespace

void warp_operation(WarpOperation operation, unsigned mask, const WarpOperands& operands, const Place& place) {
  ThreadBlock& block = running_block();
  Thread& me = *running_thread();
  Warp& warp = block.warps[static_cast<size_t>(me.warp())];
  me.place = place;
  check_call(me, warp, mask, operands.width, place);
  LaneOperands& mine = block.lane_operands[static_cast<size_t>(me.number)];
  mine.lane_argument = operands.lane_argument;
  mine.in_bytes = operands.in_bytes;
  copy_bytes(mine.in, operands.in, operands.in_bytes);
  me.state = ThreadState::kInWarpOperation;
  OrderToken* order_token = nullptr;
  bool last = false;
  {
    const UnwatchedScope unwatched;
    PendingWarpOperation& pending = find_or_begin(warp, operation, mask, operands.width, place, me);
    pending.arrived |= me.lane_bit();
    order_token = pending.order_token;
    // Of all warp operations only __syncwarp orders memory.
    if (order_token != nullptr) release_order(order_token);
    last = pending.arrived == mask;
    if (last) {
      const auto first_lane = static_cast<size_t>(me.warp() * kWarpSize);
      compute(pending, &block.lane_operands[first_lane]);
      warp.pending.erase(warp.pending.begin() + (&pending - warp.pending.data()));
      for_each_lane(mask, [&](int lane) { make_ready(block.threads[first_lane + static_cast<size_t>(lane)]); });
    }
  }
  wait_for_turn();
  if (order_token != nullptr) acquire_order(order_token);
  copy_bytes(operands.out, mine.out, operands.out_bytes);
}

}  // namespace cuda_emulation
