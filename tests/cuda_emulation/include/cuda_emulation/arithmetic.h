// Device functions that NVIDIA's headers offer to nvcc only: fast arithmetic, bits, and loads and stores with cache
// hints. Approximations of the device (__expf, rsqrtf, ...) are exact functions here, so results differ in the last
// bits.
#pragma once

#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

using std::max;
using std::min;

inline float rsqrtf(float x) {
  return 1.0f / sqrtf(x);
}
inline float __frsqrt_rn(float x) {
  return 1.0f / sqrtf(x);
}
inline float __fsqrt_rn(float x) {
  return sqrtf(x);
}
inline float __expf(float x) {
  return expf(x);
}
inline float __logf(float x) {
  return logf(x);
}
inline float __sinf(float x) {
  return sinf(x);
}
inline float __cosf(float x) {
  return cosf(x);
}
inline float __powf(float x, float y) {
  return powf(x, y);
}
inline float __frcp_rn(float x) {
  return 1.0f / x;
}
inline float __fdividef(float x, float y) {
  return x / y;
}
inline float __fdiv_rn(float x, float y) {
  return x / y;
}
inline float __fmaf_rn(float x, float y, float z) {
  return fmaf(x, y, z);
}
inline float __fmul_rn(float x, float y) {
  return x * y;
}
inline float __fadd_rn(float x, float y) {
  return x + y;
}
inline float __fsub_rn(float x, float y) {
  return x - y;
}
inline float __saturatef(float x) {
  return x > 1.0f ? 1.0f : x > 0.0f ? x : 0.0f;
}  // NaN becomes 0, as on the device

namespace cuda_emulation {

template <typename To, typename From>
To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

}  // namespace cuda_emulation

inline int __float_as_int(float x) {
  return cuda_emulation::same_bits<int>(x);
}
inline unsigned __float_as_uint(float x) {
  return cuda_emulation::same_bits<unsigned>(x);
}
inline float __int_as_float(int x) {
  return cuda_emulation::same_bits<float>(x);
}
inline float __uint_as_float(unsigned x) {
  return cuda_emulation::same_bits<float>(x);
}
inline long long __double_as_longlong(double x) {
  return cuda_emulation::same_bits<long long>(x);
}
inline double __longlong_as_double(long long x) {
  return cuda_emulation::same_bits<double>(x);
}

inline int __float2int_rn(float x) {
  return static_cast<int>(nearbyintf(x));
}
inline int __popc(unsigned x) {
  return __builtin_popcount(x);
}
inline int __popcll(unsigned long long x) {
  return __builtin_popcountll(x);
}
inline int __ffs(int x) {
  return __builtin_ffs(x);
}
inline int __ffsll(long long x) {
  return __builtin_ffsll(x);
}
inline int __clz(int x) {
  return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x));
}
inline int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x));
}
inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>((static_cast<unsigned long long>(x) * y) >> 32);
}
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return static_cast<unsigned long long>((static_cast<unsigned __int128>(x) * y) >> 64);
}

template <typename T>
T __ldg(const T* address) {
  return *address;
}
template <typename T>
T __ldcs(const T* address) {
  return *address;
}
template <typename T>
T __ldcg(const T* address) {
  return *address;
}
template <typename T>
void __stcs(T* address, T value) {
  *address = value;
}
template <typename T>
void __stcg(T* address, T value) {
  *address = value;
}
