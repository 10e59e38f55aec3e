#include "nccl/reduction.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "runtime/failure.h"

namespace cuda_emulation {

namespace {

/// What an element is while it is worked on.
template <typename T>
T worked_on(T value) {
  return value;
}
float worked_on(__nv_bfloat16 value) {
  return __bfloat162float(value);
}

template <typename T, typename Worked>
T stored(Worked value) {
  return static_cast<T>(value);
}
template <>
__nv_bfloat16 stored<__nv_bfloat16, float>(float value) {
  return __float2bfloat16(value);
}

template <typename T, typename Operation>
void reduce_with(T* sums, const T* values, size_t count, const Operation& operation) {
  for (size_t i = 0; i < count; ++i) {
    const auto a = worked_on(sums[i]), b = worked_on(values[i]);
    using Worked = std::remove_const_t<decltype(a)>;
    sums[i] = stored<T, Worked>(static_cast<Worked>(operation(a, b)));
  }
}

template <typename T>
void reduce_typed(T* sums, const T* values, size_t count, ncclRedOp_t operation) {
  switch (operation) {
    case ncclSum:
    case ncclAvg:
      return reduce_with(sums, values, count, [](auto a, auto b) { return a + b; });
    case ncclProd:
      return reduce_with(sums, values, count, [](auto a, auto b) { return a * b; });
    case ncclMax:
      return reduce_with(sums, values, count, [](auto a, auto b) { return std::max(a, b); });
    default:
      return reduce_with(sums, values, count, [](auto a, auto b) { return std::min(a, b); });
  }
}

template <typename T>
void divide_typed(T* sums, size_t count, int ranks) {
  for (size_t i = 0; i < count; ++i) {
    const auto sum = worked_on(sums[i]);
    using Worked = std::remove_const_t<decltype(sum)>;
    sums[i] = stored<T, Worked>(static_cast<Worked>(sum / static_cast<Worked>(ranks)));
  }
}

/// Calls visit with a null pointer to the C++ type of the elements.
template <typename Visit>
void with_type(ncclDataType_t type, const Visit& visit) {
  switch (type) {
    case ncclInt8:
      return visit(static_cast<int8_t*>(nullptr));
    case ncclUint8:
      return visit(static_cast<uint8_t*>(nullptr));
    case ncclInt32:
      return visit(static_cast<int32_t*>(nullptr));
    case ncclUint32:
      return visit(static_cast<uint32_t*>(nullptr));
    case ncclInt64:
      return visit(static_cast<int64_t*>(nullptr));
    case ncclUint64:
      return visit(static_cast<uint64_t*>(nullptr));
    case ncclFloat32:
      return visit(static_cast<float*>(nullptr));
    case ncclFloat64:
      return visit(static_cast<double*>(nullptr));
    case ncclBfloat16:
      return visit(static_cast<__nv_bfloat16*>(nullptr));
    default:
      fail("NCCL: the emulation does not have type %d", static_cast<int>(type));
  }
}

}  // namespace

void reduce_elements(void* sums, const void* values, size_t count, ncclDataType_t type, ncclRedOp_t operation) {
  with_type(type, [&](auto* typed) {
    using T = std::remove_pointer_t<decltype(typed)>;
    reduce_typed(static_cast<T*>(sums), static_cast<const T*>(values), count, operation);
  });
}

void divide_elements(void* sums, size_t count, ncclDataType_t type, int ranks) {
  with_type(type, [&](auto* typed) {
    divide_typed(static_cast<std::remove_pointer_t<decltype(typed)>*>(sums), count, ranks);
  });
}

}  // namespace cuda_emulation
