// Tables whose activations are bfloat16, for cases that are written in float: around every call, the arrays that hold
// reals are replaced by narrow copies, and what was written comes back.
#pragma once

#include "kernels/kernels.h"

namespace heddle::test {

/// The reference on inputs rounded to bfloat16, with outputs rounded.
const Kernels& rounded_reference();
#ifdef HEDDLE_WITH_CUDA
/// The GPU's operations on bfloat16 memory.
const Kernels& narrow_cuda();
#endif

/// x rounded to bfloat16, to nearest, ties to even; NaN stays NaN.
float rounded(float x);

}  // namespace heddle::test
