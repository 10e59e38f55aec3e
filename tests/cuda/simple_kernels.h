// The smallest kernel, for tests of what surrounds kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace heddle::cuda {

/// values[i] *= factor on the stream; nothing for count 0.
void scale_on_device(float* values, int64_t count, float factor, cudaStream_t stream);

/// sums[row] = sum of values[row, columns], a block per row.
void sum_rows_on_device(const float* values, float* sums, int64_t rows, int64_t columns, cudaStream_t stream);

}  // namespace heddle::cuda
