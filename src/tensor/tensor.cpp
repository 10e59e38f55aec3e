#include "tensor/tensor.h"

#include <algorithm>

namespace heddle {

int64_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kBfloat16:
      return 2;
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kUint8:
      return 1;
  }
  return 0;
}

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) {
    require(size >= 0, "negative size in shape {}", shape_text(shape));
    if (__builtin_mul_overflow(count, size, &count)) fail("shape {} has too many elements", shape_text(shape));
  }
  return count;
}

std::string shape_text(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Tensor::Storage::Storage(int64_t bytes_in, Purpose purpose_in)
    : bytes(bytes_in), purpose(purpose_in), allocator(Allocator::current()) {
  data = allocator.allocate(bytes, purpose);
}
Tensor::Storage::~Storage() {
  allocator.release(data, bytes, purpose);
}

Tensor Tensor::empty(Shape shape, Purpose purpose, DType dtype, int64_t row_capacity) {
  Tensor tensor;
  tensor.count_ = element_count(shape);
  tensor.dtype_ = dtype;
  tensor.row_capacity_ = row_capacity;
  Shape reserved = shape;
  if (!shape.empty()) reserved[0] = std::max(shape[0], row_capacity);
  tensor.shape_ = std::move(shape);
  tensor.storage_ = std::make_shared<Storage>(element_count(reserved) * dtype_bytes(dtype), purpose);
  return tensor;
}

Tensor Tensor::empty_like(const Tensor& other, Purpose purpose) {
  return empty(other.shape_, purpose, other.dtype_, other.row_capacity_);
}

Tensor Tensor::zeros(Shape shape, Purpose purpose, DType dtype) {
  Tensor tensor = empty(std::move(shape), purpose, dtype);
  if (!tensor.storage_->allocator.memory().gives_zeros()) tensor.fill_zero();
  return tensor;
}

void* Tensor::typed(DType expected) const {
  if (storage_ == nullptr) return nullptr;
  require(dtype_ == expected, "tensor {} has element type {}, asked for {}", shape_text(shape_),
          static_cast<int>(dtype_), static_cast<int>(expected));
  return static_cast<std::byte*>(storage_->data) + offset_;
}

Reals Tensor::reals() const {
  if (storage_ == nullptr) return {};
  if (dtype_ == DType::kBfloat16) return {typed(DType::kBfloat16), RealType::kBfloat16};
  return {f32()};
}

Tensor Tensor::view(Shape shape) const {
  require(element_count(shape) == count_, "cannot view {} as {}", shape_text(shape_), shape_text(shape));
  Tensor tensor = *this;
  tensor.row_capacity_ = 0;
  tensor.shape_ = std::move(shape);
  return tensor;
}

Tensor Tensor::rows(int64_t first, int64_t count) const {
  require(first >= 0 && count >= 0 && first + count <= dim(0), "rows {}+{} of {}", first, count, shape_text(shape_));
  const int64_t width = shape_[0] == 0 ? 0 : count_ / shape_[0];
  Shape shape = shape_;
  shape[0] = count;
  return flat(first * width, std::move(shape));
}

Tensor Tensor::flat(int64_t first, Shape shape) const {
  Tensor tensor = *this;
  tensor.row_capacity_ = 0;
  tensor.count_ = element_count(shape);
  require(first >= 0 && first + tensor.count_ <= count_, "elements {}+{} of {}", first, tensor.count_, count_);
  tensor.shape_ = std::move(shape);
  tensor.offset_ = offset_ + first * dtype_bytes(dtype_);
  return tensor;
}

Memory& Tensor::memory() const {
  require(defined(), "an undefined tensor has no memory");
  return storage_->allocator.memory();
}

Tensor Tensor::on_host() const {
  if (!defined() || memory().host_readable()) return *this;
  const ScopedAllocator host(Allocator::host());
  Tensor copy = empty(shape_, storage_->purpose, dtype_);
  copy.copy_from(*this);
  return copy;
}

void Tensor::set_bytes(const void* host, size_t size) const {
  require(size == static_cast<size_t>(bytes()), "{} bytes into a tensor {} of {}", size, shape_text(shape_), bytes());
  if (size > 0) memory().copy_in(typed(dtype_), host, size);
}

void Tensor::get_bytes(void* host, size_t size) const {
  require(size == static_cast<size_t>(bytes()), "{} bytes out of a tensor {} of {}", size, shape_text(shape_), bytes());
  if (size > 0) memory().copy_out(host, typed(dtype_), size);
}

Tensor Tensor::clone() const {
  Tensor copy = empty(shape_, storage_->purpose, dtype_);
  copy.copy_from(*this);
  return copy;
}

void Tensor::fill_zero() const {
  if (bytes() > 0) memory().clear(typed(dtype_), static_cast<size_t>(bytes()));
}

void Tensor::copy_from(const Tensor& other) const {
  require(count_ == other.count_ && dtype_ == other.dtype_, "copy of {} into {}", shape_text(other.shape_),
          shape_text(shape_));
  if (bytes() == 0) return;
  const auto size = static_cast<size_t>(bytes());
  if (&memory() == &other.memory())
    memory().copy_within(typed(dtype_), other.typed(dtype_), size);
  else if (other.memory().host_readable())
    memory().copy_in(typed(dtype_), other.typed(dtype_), size);
  else if (memory().host_readable())
    other.memory().copy_out(typed(dtype_), other.typed(dtype_), size);
  else
    fail("no way between the memories of two devices");
}

}  // namespace heddle
