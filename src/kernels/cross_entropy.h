// Softmax cross-entropy of a chunk of rows.
#pragma once

#include "kernels/types.h"

namespace heddle {

/// Targets are in [0, vocabulary) or kIgnoredTarget; others are not checked here.
/// loss[r] = logsumexp(logits[r,:]) - logits[r,target[r]], 0 where target[r] is kIgnoredTarget; double.
/// With want_gradient the logits are replaced by gradient_scale * dloss[r]/dlogits (zero for ignored rows).
using CrossEntropy = void(int64_t rows, int64_t vocabulary, const int32_t* targets, float gradient_scale,
                          bool want_gradient, float* logits, double* loss);

}  // namespace heddle
