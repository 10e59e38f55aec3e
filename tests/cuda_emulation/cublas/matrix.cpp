#include "cublas/matrix.h"

#include <cuda_bf16.h>

#include "runtime/allocations.h"

namespace cuda_emulation {

bool is_matrix_type(cudaDataType type) {
  return type == CUDA_R_32F || type == CUDA_R_16BF;
}

size_t bytes_of(cudaDataType type) {
  return type == CUDA_R_32F ? sizeof(float) : sizeof(__nv_bfloat16);
}

void check_matrix(int device, const Matrix& matrix, bool write, const char* what) {
  if (matrix.rows == 0 || matrix.columns == 0) return;
  const size_t element = bytes_of(matrix.type);
  const auto* data = static_cast<const unsigned char*>(matrix.data);
  const size_t column = static_cast<size_t>(matrix.rows) * element;
  const size_t stride = static_cast<size_t>(matrix.stride) * element;
  const auto columns = static_cast<size_t>(matrix.columns);
  if (stride == column) {
    check_device_operand(device, data, columns * column, write, what);
    return;
  }
  for (size_t i = 0; i < columns; ++i) check_device_operand(device, data + i * stride, column, write, what);
}

std::vector<float> as_floats(const Matrix& matrix) {
  std::vector<float> values(static_cast<size_t>(matrix.rows * matrix.columns));
  size_t next = 0;
  for (int64_t column = 0; column < matrix.columns; ++column)
    for (int64_t i = column * matrix.stride; i < column * matrix.stride + matrix.rows; ++i)
      values[next++] = matrix.type == CUDA_R_32F ? static_cast<const float*>(matrix.data)[i]
                                                 : __bfloat162float(static_cast<const __nv_bfloat16*>(matrix.data)[i]);
  return values;
}

void store_floats(const Matrix& matrix, const std::vector<float>& values) {
  void* const data = const_cast<void*>(matrix.data);
  size_t next = 0;
  for (int64_t column = 0; column < matrix.columns; ++column)
    for (int64_t i = column * matrix.stride; i < column * matrix.stride + matrix.rows; ++i) {
      if (matrix.type == CUDA_R_32F)
        static_cast<float*>(data)[i] = values[next++];
      else
        static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16(values[next++]);
    }
}

}  // namespace cuda_emulation
