// __syncthreads and its reductions, and memory fences. The runtime finds threads that wait at different barriers, or
// that ended before one, by the place of the call.
#pragma once

#include <source_location>

namespace cuda_emulation {

using Place = std::source_location;

enum class BarrierReduction { kNone, kCount, kAnd, kOr };
int block_barrier(BarrierReduction reduction, bool predicate, const Place& place);
void memory_fence();

}  // namespace cuda_emulation

inline void __syncthreads(const cuda_emulation::Place& place = cuda_emulation::Place::current()) {
  cuda_emulation::block_barrier(cuda_emulation::BarrierReduction::kNone, false, place);
}
inline int __syncthreads_count(int predicate, const cuda_emulation::Place& place = cuda_emulation::Place::current()) {
  return cuda_emulation::block_barrier(cuda_emulation::BarrierReduction::kCount, predicate != 0, place);
}
inline int __syncthreads_and(int predicate, const cuda_emulation::Place& place = cuda_emulation::Place::current()) {
  return cuda_emulation::block_barrier(cuda_emulation::BarrierReduction::kAnd, predicate != 0, place);
}
inline int __syncthreads_or(int predicate, const cuda_emulation::Place& place = cuda_emulation::Place::current()) {
  return cuda_emulation::block_barrier(cuda_emulation::BarrierReduction::kOr, predicate != 0, place);
}

inline void __threadfence() {
  cuda_emulation::memory_fence();
}
inline void __threadfence_block() {
  cuda_emulation::memory_fence();
}
