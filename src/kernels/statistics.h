// What statistics of a step add up, where the tensors are: none of these makes the host wait for a device.
#pragma once

#include "kernels/types.h"

namespace heddle {

/// *total += equal pairs: over rows, of the entries of a and of b [rows,choices], whose entries differ within a row.
using CountCommon = void(int64_t rows, int64_t choices, const int32_t* a, const int32_t* b, int64_t* total);

/// *sum += scale * sum of squares of x, in double and in a fixed order that does not depend on the thread count.
using AddSquares = void(int64_t count, double scale, ConstReals x, double* sum);

/// *sum += sum over rows of the mean square before a norm that divided by it, 1 / inverse_rms^2 - eps, likewise.
using AddMeanSquares = void(int64_t rows, double eps, const float* inverse_rms, double* sum);

}  // namespace heddle
