// One vector for all rows, or one factor and one shift for every element.
#pragma once

#include "kernels/types.h"

namespace heddle {

/// out[r,:] = x[r,:] + row; x, out [rows,width], row [width]; out may be x.
using AddRow = void(int64_t rows, int64_t width, ConstReals x, const float* row, Reals out);
/// sum = sum over r of x[r,:], [width], in a fixed order that does not depend on the thread count; zeros without rows.
using SumRows = void(int64_t rows, int64_t width, ConstReals x, GradientOut sum);

/// out = (1 + s) * x + b: x, out [rows,width], modulation [rows,2*width], each row s followed by b.
using ModulateForward = void(int64_t rows, int64_t width, ConstReals x, ConstReals modulation, Reals out);
using ModulateBackward = void(int64_t rows, int64_t width, ConstReals x, ConstReals modulation, ConstReals dout,
                              RealsGradient dx, RealsGradient dmodulation);

}  // namespace heddle
