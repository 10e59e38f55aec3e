// Injection of the input into a looped state with a learned decay per channel (docs/model_family.md section 2):
//   Delta = log(1 + exp(dt_bias)), A = exp(a_log), out = exp(-Delta * A) * h + Delta * injected.
#pragma once

#include "kernels/types.h"

namespace heddle {

/// h, injected, out [rows,width]; dt_bias, a_log [width].
using DecayInjectionForward = void(int64_t rows, int64_t width, ConstReals h, ConstReals injected, const float* dt_bias,
                                   const float* a_log, Reals out);
/// ddt_bias and da_log sum over rows in a fixed order that does not depend on the thread count.
using DecayInjectionBackward = void(int64_t rows, int64_t width, ConstReals h, ConstReals injected,
                                    const float* dt_bias, const float* a_log, ConstReals dout, RealsGradient dh,
                                    RealsGradient dinjected, GradientOut ddt_bias, GradientOut da_log);

}  // namespace heddle
