// Atomic operations on device and shared memory, all relaxed as on the device: they order no other memory. They are
// real atomics, so that ThreadSanitizer knows them from plain loads and stores.
#pragma once

#include <cuda_bf16.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace cuda_emulation {

template <typename T>
using AtomicBits = std::conditional_t<sizeof(T) == 8, unsigned long long,
                                      std::conditional_t<sizeof(T) == 4, unsigned, unsigned short>>;

/// *address becomes change(*address); returns what was there before.
template <typename T, typename Change>
T atomic_change(T* address, Change change) {
  using Bits = AtomicBits<T>;
  Bits* const bits = reinterpret_cast<Bits*>(address);
  Bits before = __atomic_load_n(bits, __ATOMIC_RELAXED);
  for (;;) {
    T old_value;
    memcpy(static_cast<void*>(&old_value), &before, sizeof(T));
    const T new_value = change(old_value);
    Bits after;
    memcpy(&after, &new_value, sizeof(T));
    if (__atomic_compare_exchange_n(bits, &before, after, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return old_value;
  }
}

/// The types that CUDA has atomicAdd for.
template <typename T>
inline constexpr bool kHasAtomicAdd =
    std::is_same_v<T, int> || std::is_same_v<T, unsigned> || std::is_same_v<T, unsigned long long> ||
    std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, __nv_bfloat16> ||
    std::is_same_v<T, __nv_bfloat162>;

/// The types that CUDA has the other arithmetic and bitwise atomics for.
template <typename T>
inline constexpr bool kHasIntegerAtomics = std::is_same_v<T, int> || std::is_same_v<T, unsigned> ||
                                           std::is_same_v<T, long long> || std::is_same_v<T, unsigned long long>;

/// Bars an argument from type deduction: the address alone says what T is.
template <typename T>
using Value = std::type_identity_t<T>;

}  // namespace cuda_emulation

template <typename T>
T atomicAdd(T* address, cuda_emulation::Value<T> value) {
  static_assert(cuda_emulation::kHasAtomicAdd<T>, "CUDA has no atomicAdd for this type");
  return cuda_emulation::atomic_change(address, [value](T old) { return static_cast<T>(old + value); });
}
template <typename T>
T atomicSub(T* address, cuda_emulation::Value<T> value) {
  static_assert(std::is_same_v<T, int> || std::is_same_v<T, unsigned>, "CUDA has no atomicSub for this type");
  return cuda_emulation::atomic_change(address, [value](T old) { return static_cast<T>(old - value); });
}
template <typename T>
T atomicMax(T* address, cuda_emulation::Value<T> value) {
  static_assert(cuda_emulation::kHasIntegerAtomics<T>, "CUDA has no atomicMax for this type");
  return cuda_emulation::atomic_change(address, [value](T old) { return std::max(old, value); });
}
template <typename T>
T atomicMin(T* address, cuda_emulation::Value<T> value) {
  static_assert(cuda_emulation::kHasIntegerAtomics<T>, "CUDA has no atomicMin for this type");
  return cuda_emulation::atomic_change(address, [value](T old) { return std::min(old, value); });
}
template <typename T>
T atomicAnd(T* address, cuda_emulation::Value<T> value) {
  static_assert(cuda_emulation::kHasIntegerAtomics<T>, "CUDA has no atomicAnd for this type");
  return cuda_emulation::atomic_change(address, [value](T old) { return static_cast<T>(old & value); });
}
template <typename T>
T atomicOr(T* address, cuda_emulation::Value<T> value) {
  static_assert(cuda_emulation::kHasIntegerAtomics<T>, "CUDA has no atomicOr for this type");
  return cuda_emulation::atomic_change(address, [value](T old) { return static_cast<T>(old | value); });
}
template <typename T>
T atomicExch(T* address, cuda_emulation::Value<T> value) {
  static_assert(cuda_emulation::kHasIntegerAtomics<T> || std::is_same_v<T, float>,
                "CUDA has no atomicExch for this type");
  return cuda_emulation::atomic_change(address, [value](T) { return value; });
}
template <typename T>
T atomicCAS(T* address, cuda_emulation::Value<T> expected, cuda_emulation::Value<T> value) {
  static_assert(cuda_emulation::kHasIntegerAtomics<T> || std::is_same_v<T, unsigned short>,
                "CUDA has no atomicCAS for this type");
  return cuda_emulation::atomic_change(address, [=](T old) { return old == expected ? value : old; });
}
