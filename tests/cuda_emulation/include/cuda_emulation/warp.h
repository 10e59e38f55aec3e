// Operations of a warp: shuffles, votes, matches, reductions and __syncwarp. A mask names the lanes that must all call
// the operation at the same place; the runtime finds lanes that do not, lanes outside of the mask, and shuffles from
// them.
#pragma once

#include <cstdint>
#include <cstring>
#include <source_location>

namespace cuda_emulation {

using Place = std::source_location;

enum class WarpOperation {
  kSync,
  kShuffle,
  kShuffleUp,
  kShuffleDown,
  kShuffleXor,
  kBallot,
  kMatchAny,
  kReduceAdd,
  kReduceMin,
  kReduceMax,
  kReduceMinUnsigned,
  kReduceMaxUnsigned,
  kReduceAnd,
  kReduceOr,
  kReduceXor,
  kMatrixProduct,
  kLoadMatrices,
  kLoadMatricesTransposed,
};

/// What one lane brings and gets: `in` of in_bytes (at most 64), `out` of out_bytes (at most 16).
struct WarpOperands {
  const void* in = nullptr;
  size_t in_bytes = 0;
  void* out = nullptr;
  size_t out_bytes = 0;
  int lane_argument = 0;  ///< source lane, distance or lane mask of a shuffle
  int width = 32;
};
void warp_operation(WarpOperation operation, unsigned mask, const WarpOperands& operands, const Place& place);

template <typename T>
T shuffle(WarpOperation operation, unsigned mask, T value, int lane_argument, int width, const Place& place) {
  static_assert(sizeof(T) <= 8, "shuffles move 1 to 8 bytes");
  T result;
  warp_operation(operation, mask, {&value, sizeof(T), &result, sizeof(T), lane_argument, width}, place);
  return result;
}

template <typename T>
T reduce_lanes(WarpOperation operation, unsigned mask, T value, const Place& place) {
  static_assert(sizeof(T) == 4);
  T result;
  warp_operation(operation, mask, {&value, sizeof(T), &result, sizeof(T)}, place);
  return result;
}

}  // namespace cuda_emulation

inline void __syncwarp(unsigned mask = 0xffffffffu,
                       const cuda_emulation::Place& place = cuda_emulation::Place::current()) {
  cuda_emulation::warp_operation(cuda_emulation::WarpOperation::kSync, mask, {}, place);
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32,
              const cuda_emulation::Place& place = cuda_emulation::Place::current()) {
  return cuda_emulation::shuffle(cuda_emulation::WarpOperation::kShuffle, mask, value, lane, width, place);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32,
                 const cuda_emulation::Place& place = cuda_emulation::Place::current()) {
  return cuda_emulation::shuffle(cuda_emulation::WarpOperation::kShuffleUp, mask, value, static_cast<int>(distance),
                                 width, place);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32,
                   const cuda_emulation::Place& place = cuda_emulation::Place::current()) {
  return cuda_emulation::shuffle(cuda_emulation::WarpOperation::kShuffleDown, mask, value, static_cast<int>(distance),
                                 width, place);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  const cuda_emulation::Place& place = cuda_emulation::Place::current()) {
  return cuda_emulation::shuffle(cuda_emulation::WarpOperation::kShuffleXor, mask, value, lane_mask, width, place);
}

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              const cuda_emulation::Place& place = cuda_emulation::Place::current()) {
  return cuda_emulation::reduce_lanes(cuda_emulation::WarpOperation::kBallot, mask, predicate != 0 ? 1u : 0u, place);
}
inline int __any_sync(unsigned mask, int predicate,
                      const cuda_emulation::Place& place = cuda_emulation::Place::current()) {
  return __ballot_sync(mask, predicate, place) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      const cuda_emulation::Place& place = cuda_emulation::Place::current()) {
  return __ballot_sync(mask, predicate == 0, place) == 0;
}

template <typename T>
unsigned __match_any_sync(unsigned mask, T value,
                          const cuda_emulation::Place& place = cuda_emulation::Place::current()) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "values of 4 or 8 bytes");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  unsigned result;
  cuda_emulation::warp_operation(cuda_emulation::WarpOperation::kMatchAny, mask,
                                 {&bits, sizeof(bits), &result, sizeof(result)}, place);
  return result;
}

inline unsigned __reduce_add_sync(unsigned mask, unsigned value,
                                  const cuda_emulation::Place& place = cuda_emulation::Place::current()) {
  return cuda_emulation::reduce_lanes(cuda_emulation::WarpOperation::kReduceAdd, mask, value, place);
}
inline int __reduce_add_sync(unsigned mask, int value,
                             const cuda_emulation::Place& place = cuda_emulation::Place::current()) {
  return cuda_emulation::reduce_lanes(cuda_emulation::WarpOperation::kReduceAdd, mask, value, place);
}
inline unsigned __reduce_min_sync(unsigned mask, unsigned value,
                                  const cuda_emulation::Place& place = cuda_emulation::Place::current()) {
  return cuda_emulation::reduce_lanes(cuda_emulation::WarpOperation::kReduceMinUnsigned, mask, value, place);
}
inline int __reduce_min_sync(unsigned mask, int value,
                             const cuda_emulation::Place& place = cuda_emulation::Place::current()) {
  return cuda_emulation::reduce_lanes(cuda_emulation::WarpOperation::kReduceMin, mask, value, place);
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value,
                                  const cuda_emulation::Place& place = cuda_emulation::Place::current()) {
  return cuda_emulation::reduce_lanes(cuda_emulation::WarpOperation::kReduceMaxUnsigned, mask, value, place);
}
inline int __reduce_max_sync(unsigned mask, int value,
                             const cuda_emulation::Place& place = cuda_emulation::Place::current()) {
  return cuda_emulation::reduce_lanes(cuda_emulation::WarpOperation::kReduceMax, mask, value, place);
}
inline unsigned __reduce_and_sync(unsigned mask, unsigned value,
                                  const cuda_emulation::Place& place = cuda_emulation::Place::current()) {
  return cuda_emulation::reduce_lanes(cuda_emulation::WarpOperation::kReduceAnd, mask, value, place);
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value,
                                 const cuda_emulation::Place& place = cuda_emulation::Place::current()) {
  return cuda_emulation::reduce_lanes(cuda_emulation::WarpOperation::kReduceOr, mask, value, place);
}
inline unsigned __reduce_xor_sync(unsigned mask, unsigned value,
                                  const cuda_emulation::Place& place = cuda_emulation::Place::current()) {
  return cuda_emulation::reduce_lanes(cuda_emulation::WarpOperation::kReduceXor, mask, value, place);
}
