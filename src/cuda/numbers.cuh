// Kernels calculate in float and store float or bfloat16. Templates over the stored type T load with to_float and store
// with from_float<T>, or move 16 bytes at once as a Pack.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <cstring>

namespace heddle::cuda {

__device__ __forceinline__ float to_float(float value) {
  return value;
}
__device__ __forceinline__ float to_float(__nv_bfloat16 value) {
  return __bfloat162float(value);
}

template <typename T>
__device__ __forceinline__ T from_float(float value);
template <>
__device__ __forceinline__ float from_float<float>(float value) {
  return value;
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
  return __float2bfloat16(value);  // rounds to nearest, ties to even
}

/// Unsigned integers that sort like the numbers; -0 equals +0. A NaN is 1, below every number, and nothing is 0.
__device__ __forceinline__ uint32_t sort_key(float value) {
  if (value != value) return 1;
  const uint32_t bits = __float_as_uint(value + 0.0f);  // -0 becomes +0
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

/// 16 bytes of T: 4 floats or 8 bfloat16.
template <typename T>
struct Pack {
  static constexpr int kSize = 16 / sizeof(T);
  T values[kSize];
};

/// One 16-byte access. `address` must be a multiple of 16 bytes.
template <typename T>
__device__ __forceinline__ Pack<T> load_pack(const T* address) {
  const uint4 bits = *reinterpret_cast<const uint4*>(address);
  Pack<T> pack;
  memcpy(&pack, &bits, sizeof(bits));
  return pack;
}
template <typename T>
__device__ __forceinline__ void store_pack(T* address, const Pack<T>& pack) {
  uint4 bits;
  memcpy(&bits, &pack, sizeof(bits));
  *reinterpret_cast<uint4*>(address) = bits;
}

}  // namespace heddle::cuda
