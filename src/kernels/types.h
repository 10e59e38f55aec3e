// What kernels are told about their arguments.
#pragma once

#include <cstdint>

namespace heddle {

/// How real numbers are stored. Arithmetic is float32 in both.
enum class RealType : uint8_t { kFloat32, kBfloat16 };
constexpr int64_t real_bytes(RealType type) {
  return type == RealType::kFloat32 ? 4 : 2;
}

/// Real numbers in memory, of a type that is known at run time. A float pointer is one.
struct Reals {
  void* data = nullptr;
  RealType type = RealType::kFloat32;

  Reals() = default;
  Reals(float* values) : data(values) {}  // NOLINT(google-explicit-constructor)
  Reals(void* values, RealType stored) : data(values), type(stored) {}
  explicit operator bool() const { return data != nullptr; }
  /// Elements from `first` on.
  Reals at(int64_t first) const {
    return data == nullptr ? *this : Reals{static_cast<char*>(data) + first * real_bytes(type), type};
  }
};

/// Real numbers that are only read.
struct ConstReals {
  const void* data = nullptr;
  RealType type = RealType::kFloat32;

  ConstReals() = default;
  ConstReals(const float* values) : data(values) {}                          // NOLINT(google-explicit-constructor)
  ConstReals(const Reals& values) : data(values.data), type(values.type) {}  // NOLINT(google-explicit-constructor)
  ConstReals(const void* values, RealType stored) : data(values), type(stored) {}
  explicit operator bool() const { return data != nullptr; }
  ConstReals at(int64_t first) const {
    return data == nullptr ? *this : ConstReals{static_cast<const char*>(data) + first * real_bytes(type), type};
  }
};

/// Where a gradient of float32 goes. Every backward kernel writes each gradient through one of these or the next:
/// data == nullptr: not wanted; accumulate false: overwrite (the memory may hold anything, also NaN); true: add to it.
struct GradientOut {
  float* data = nullptr;
  bool accumulate = false;
  explicit operator bool() const { return data != nullptr; }
};

/// Where a gradient of activations goes, stored as they are.
struct RealsGradient {
  Reals data;
  bool accumulate = false;

  RealsGradient() = default;
  RealsGradient(Reals to, bool add) : data(to), accumulate(add) {}
  RealsGradient(const GradientOut& out) : data(out.data), accumulate(out.accumulate) {}  // NOLINT
  explicit operator bool() const { return data.data != nullptr; }
};

/// Target label of a position that does not count in the loss.
inline constexpr int32_t kIgnoredTarget = -100;

}  // namespace heddle
