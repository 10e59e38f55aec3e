// Vectors in memory as packs of neighbouring elements: how the memory-bound kernels here load and store. A pack moves
// in accesses of 16 bytes where the address allows it, and element by element otherwise. Which thread takes which
// elements does not depend on that, so sums have the same bits at every address.
#pragma once

#include <algorithm>
#include <type_traits>

#include "cuda/device.cuh"

namespace heddle::cuda {

/// Threads of a block of these kernels: 8 warps.
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;

/// Elements of a pack of vectors of these types: those that fill 16 bytes of the widest type.
template <typename... T>
constexpr int kPackSize = 16 / std::max({static_cast<int>(sizeof(T))...});

/// What memory is accessed by for a pack: 16 bytes at once, or the 8 that a narrow vector has beside a wide one.
template <int kPack, typename T>
using Access = std::conditional_t<kPack * sizeof(T) == 8, uint2, uint4>;

/// A pack as it is stored. Elements are converted where they are used: after all loads are under way.
template <int kPack, typename T>
struct Elements {
  T values[kPack];
  __device__ float operator[](int i) const { return to_float(values[i]); }
};

/// A pack whose address is a multiple of the access.
template <int kPack, typename T>
__device__ __forceinline__ Elements<kPack, T> load_whole(const T* address) {
  using Bits = Access<kPack, T>;
  constexpr int kAccesses = static_cast<int>(kPack * sizeof(T) / sizeof(Bits));
  static_assert(kAccesses * sizeof(Bits) == kPack * sizeof(T));
  Bits bits[kAccesses];
#pragma unroll
  for (int i = 0; i < kAccesses; ++i) bits[i] = reinterpret_cast<const Bits*>(address)[i];
  Elements<kPack, T> elements;
  memcpy(elements.values, bits, sizeof(bits));
  return elements;
}
template <int kPack, typename T>
__device__ __forceinline__ void store_whole(T* address, const float (&values)[kPack]) {
  using Bits = Access<kPack, T>;
  constexpr int kAccesses = static_cast<int>(kPack * sizeof(T) / sizeof(Bits));
  static_assert(kAccesses * sizeof(Bits) == kPack * sizeof(T));
  T elements[kPack];
#pragma unroll
  for (int i = 0; i < kPack; ++i) elements[i] = from_float<T>(values[i]);
  Bits bits[kAccesses];
  memcpy(bits, elements, sizeof(bits));
#pragma unroll
  for (int i = 0; i < kAccesses; ++i) reinterpret_cast<Bits*>(address)[i] = bits[i];
}

/// Elements [first, first + kPack) of a vector; those from `end` on are 0, and so is all of a null vector.
template <int kPack, typename T>
__device__ __forceinline__ Elements<kPack, T> load(const T* vector, int64_t first, int64_t end) {
  Elements<kPack, T> elements = {};
  if (vector == nullptr) return elements;
  const T* const address = vector + first;
  if (first + kPack <= end && reinterpret_cast<uintptr_t>(address) % sizeof(Access<kPack, T>) == 0)
    return load_whole<kPack>(address);
#pragma unroll
  for (int i = 0; i < kPack; ++i)
    if (first + i < end) elements.values[i] = address[i];
  return elements;
}

/// Writes elements [first, first + kPack) of a vector as far as they lie below `end`; nothing to a null vector.
template <int kPack, typename T>
__device__ __forceinline__ void store(T* vector, int64_t first, int64_t end, const float (&values)[kPack]) {
  if (vector == nullptr) return;
  T* const address = vector + first;
  if (first + kPack <= end && reinterpret_cast<uintptr_t>(address) % sizeof(Access<kPack, T>) == 0) {
    store_whole(address, values);
    return;
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i)
    if (first + i < end) address[i] = from_float<T>(values[i]);
}

}  // namespace heddle::cuda
