// A dense row-major array: shape, element type, and shared storage that remembers what it is for.
// Copying a Tensor shares the storage; elements are never cleared unless asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/types.h"
#include "support/error.h"
#include "tensor/allocator.h"

namespace heddle {

enum class DType : uint8_t { kFloat32, kBfloat16, kFloat64, kInt32, kInt64, kUint8 };
int64_t dtype_bytes(DType dtype);

using Shape = std::vector<int64_t>;
int64_t element_count(const Shape& shape);
std::string shape_text(const Shape& shape);  ///< "[2, 24, 97]"

class Tensor {
 public:
  Tensor() = default;
  /// `row_capacity`: memory for at least so many rows, so that a tensor whose rows vary from step to step (received
  /// tokens) asks for the same memory each time.
  static Tensor empty(Shape shape, Purpose purpose, DType dtype = DType::kFloat32, int64_t row_capacity = 0);
  /// Shape, element type and row capacity of another tensor.
  static Tensor empty_like(const Tensor& other, Purpose purpose);
  static Tensor zeros(Shape shape, Purpose purpose, DType dtype = DType::kFloat32);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int64_t dim(size_t axis) const { return shape_.at(axis); }
  int64_t count() const { return count_; }
  int64_t bytes() const { return count_ * dtype_bytes(dtype_); }
  DType dtype() const { return dtype_; }
  int64_t row_capacity() const { return row_capacity_; }  ///< as given to empty(); 0 for views

  float* f32() const { return static_cast<float*>(typed(DType::kFloat32)); }
  double* f64() const { return static_cast<double*>(typed(DType::kFloat64)); }
  int32_t* i32() const { return static_cast<int32_t*>(typed(DType::kInt32)); }
  int64_t* i64() const { return static_cast<int64_t*>(typed(DType::kInt64)); }
  uint8_t* u8() const { return static_cast<uint8_t*>(typed(DType::kUint8)); }
  std::span<float> floats() const { return {f32(), static_cast<size_t>(count_)}; }

  /// Elements of either type of real numbers, as kernels take them; null for an undefined tensor.
  Reals reals() const;

  Tensor view(Shape shape) const;                   ///< same elements, other shape of equal count
  Tensor rows(int64_t first, int64_t count) const;  ///< rows [first, first + count) of the first axis, shared
  Tensor flat(int64_t first, Shape shape) const;    ///< elements from `first` on under another shape, shared
  Memory& memory() const;                           ///< where the elements are; pointers above are addresses there
  /// This tensor where the host can read it, else a copy in the host's memory. Undefined stays undefined.
  Tensor on_host() const;
  /// Elements from and to the host: as many as the tensor has, in its own type.
  template <typename T>
  void set(std::span<const T> values) const {
    set_bytes(values.data(), values.size_bytes());
  }
  template <typename T>
  std::vector<T> get() const {
    std::vector<T> values(static_cast<size_t>(count_));
    get_bytes(values.data(), values.size() * sizeof(T));
    return values;
  }
  Tensor clone() const;
  void fill_zero() const;
  void copy_from(const Tensor& other) const;  ///< same count and type

 private:
  struct Storage {
    void* data = nullptr;
    int64_t bytes;
    Purpose purpose;
    Allocator& allocator;
    Storage(int64_t bytes, Purpose purpose);
    ~Storage();
    Storage(const Storage&) = delete;
    Storage& operator=(const Storage&) = delete;
  };
  void* typed(DType expected) const;
  void set_bytes(const void* host, size_t size) const;
  void get_bytes(void* host, size_t size) const;
  std::shared_ptr<Storage> storage_;
  int64_t offset_ = 0;  ///< bytes
  int64_t count_ = 0;
  int64_t row_capacity_ = 0;
  DType dtype_ = DType::kFloat32;
  Shape shape_;
};

}  // namespace heddle
