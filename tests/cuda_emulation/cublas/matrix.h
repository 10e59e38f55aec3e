// A matrix operand of cuBLAS: column-major, float or bfloat16, in device memory.
#pragma once

#include <library_types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cuda_emulation {

struct Matrix {
  const void* data;
  cudaDataType type;
  int64_t rows, columns;  ///< as stored, before any transposition
  int64_t stride;         ///< elements from one column to the next (cuBLAS: leading dimension)
};

bool is_matrix_type(cudaDataType type);
size_t bytes_of(cudaDataType type);

/// Fails unless every column is memory that `device` can reach; tells ThreadSanitizer what is touched.
void check_matrix(int device, const Matrix& matrix, bool write, const char* what);

/// Column-major floats without gaps between columns.
std::vector<float> as_floats(const Matrix& matrix);
/// The other way, rounding to the matrix's type.
void store_floats(const Matrix& matrix, const std::vector<float>& values);

}  // namespace cuda_emulation
