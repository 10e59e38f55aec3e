// Devices that store float32 only write their operations on plain float pointers; here these become entries of the
// table.
#pragma once

#include <utility>

#include "kernels/types.h"

namespace heddle {

/// Refuses bfloat16 by name.
[[noreturn]] void refuse_bfloat16(const char* device);

namespace on_floats {

template <typename T>
struct Plain {
  using Type = T;
};
template <>
struct Plain<Reals> {
  using Type = float*;
};
template <>
struct Plain<ConstReals> {
  using Type = const float*;
};
template <>
struct Plain<RealsGradient> {
  using Type = GradientOut;
};

template <typename Function>
struct Signature;
template <typename Result, typename... Arguments>
struct Signature<Result(Arguments...)> {
  using Type = Result(typename Plain<Arguments>::Type...);
};

inline float* plain(const Reals& x) {
  if (x.type != RealType::kFloat32) refuse_bfloat16("a CPU");
  return static_cast<float*>(x.data);
}
inline const float* plain(const ConstReals& x) {
  if (x.type != RealType::kFloat32) refuse_bfloat16("a CPU");
  return static_cast<const float*>(x.data);
}
inline GradientOut plain(const RealsGradient& x) {
  return {plain(x.data), x.accumulate};
}
template <typename T>
const T& plain(const T& x) {
  return x;
}

template <typename Function, auto kOperation>
struct Entry;
template <typename Result, typename... Arguments, auto kOperation>
struct Entry<Result(Arguments...), kOperation> {
  static Result call(Arguments... arguments) { return kOperation(plain(arguments)...); }
};

}  // namespace on_floats

/// The type of an operation with float pointers in place of Reals.
template <typename Function>
using OnFloats = typename on_floats::Signature<Function>::Type;

/// Sets an entry of the table to an operation on floats.
template <auto kOperation, typename Function>
void enter(Function*& entry) {
  entry = on_floats::Entry<Function, kOperation>::call;
}

}  // namespace heddle
