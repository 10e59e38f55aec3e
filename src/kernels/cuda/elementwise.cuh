// Kernels that do the same to every element of some vectors, whatever their number, types and addresses. Each byte
// moves once.
#pragma once

#include <utility>

#include "cuda/context.h"
#include "kernels/cuda/vectors.cuh"

namespace heddle::cuda {

namespace elementwise {

/// Packs of a vector that a thread takes: enough bytes under way at once to hide the memory's latency.
constexpr int kPacks = 2;

/// kPack elements of a vector that is read, which has const elements; nothing of another.
template <int kPack, typename T>
__device__ __forceinline__ void read(T* vector, int64_t first, float (&values)[kPack]) {
  if constexpr (std::is_const_v<T>) {
    Elements<kPack, std::remove_const_t<T>> elements = {};
    if constexpr (kPack == 1) {
      if (vector != nullptr) elements.values[0] = vector[first];
    } else {
      if (vector != nullptr) elements = load_whole<kPack>(vector + first);
    }
#pragma unroll
    for (int i = 0; i < kPack; ++i) values[i] = elements[i];
  }
}

template <int kPack, typename T>
__device__ __forceinline__ void write(T* vector, int64_t first, const float (&values)[kPack]) {
  if constexpr (!std::is_const_v<T>) {
    if (vector == nullptr) return;
    if constexpr (kPack == 1)
      vector[first] = from_float<T>(values[0]);
    else
      store_whole(vector + first, values);
  }
}

template <typename Operation, int kVectors, int kPack, size_t... kVector>
__device__ __forceinline__ void apply(const Operation& operation, float (&values)[kVectors][kPack],
                                      std::index_sequence<kVector...>) {
#pragma unroll
  for (int i = 0; i < kPack; ++i) operation(values[kVector][i]...);
}

/// aligned: whole packs may be accessed at once.
template <typename Operation, typename... T>
__global__ void __launch_bounds__(kThreads)
    element_kernel(Operation operation, int64_t count, bool aligned, T*... vectors) {
  constexpr int kPack = kPackSize<T...>, kVectors = sizeof...(T), kOfBlock = kPacks * kThreads * kPack;
  constexpr auto kAll = std::make_index_sequence<kVectors>();
  const int64_t begin = int64_t{blockIdx.x} * kOfBlock;
  if (aligned && begin + kOfBlock <= count) {
    float values[kPacks][kVectors][kPack];
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      int v = 0;
      (read(vectors, begin + (p * kThreads + threadIdx.x) * kPack, values[p][v++]), ...);
    }
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      apply(operation, values[p], kAll);
      int v = 0;
      (write(vectors, begin + (p * kThreads + threadIdx.x) * kPack, values[p][v++]), ...);
    }
    return;
  }
  const int64_t end = begin + kOfBlock < count ? begin + kOfBlock : count;
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    float values[kVectors][1];
    int v = 0;
    (read(vectors, i, values[v++]), ...);
    apply(operation, values, kAll);
    v = 0;
    (write(vectors, i, values[v++]), ...);
  }
}

}  // namespace elementwise

/// Enqueues operation(element i of every vector...) for all i < count. A vector of const T is read (null: zeros) and
/// given as a float, another is written (null: left out) and given as a float&. Vectors may be the same memory: an
/// element is read before it is written.
template <typename Operation, typename... T>
void for_each_element(int64_t count, const Operation& operation, T*... vectors) {
  if (count == 0) return;
  constexpr int kPack = kPackSize<T...>;
  const bool aligned = ((reinterpret_cast<uintptr_t>(vectors) % sizeof(Access<kPack, T>) == 0) && ...);
  void (*const kernel)(Operation, int64_t, bool, T*...) = elementwise::element_kernel<Operation, T...>;
  launch(kernel, {block_count(count, elementwise::kPacks * kThreads * kPack), kThreads}, context().compute_stream(),
         operation, count, aligned, vectors...);
}

}  // namespace heddle::cuda
