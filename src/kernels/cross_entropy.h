// Softmax cross-entropy of a chunk of rows, and the soft cap of logits in front of it.
#pragma once

#include "kernels/types.h"

namespace heddle {

/// y = cap * tanh(x / cap), cap > 0; y may be x.
using SoftCap = void(int64_t count, float cap, const float* x, float* y);

struct CrossEntropyOptions {
  float gradient_scale = 0;
  float soft_cap = 0;  ///< 0: none; else the logits are capped first
  float z_weight = 0;  ///< of log_total^2 in the objective
};

/// Targets are in [0, vocabulary) or kIgnoredTarget; others are not checked here.
/// log_total[r] = logsumexp(logits[r,:]) and loss[r] = log_total[r] - logits[r,target[r]], after the soft cap; both are
/// 0 where target[r] is kIgnoredTarget; double. gradient (nullptr: not wanted; may be the memory of the logits) becomes
/// gradient_scale * d(loss[r] + z_weight * log_total[r]^2)/dlogits, zero for ignored rows. Without it the logits stay
/// as they are, or become the capped ones where there is a cap; beside a gradient in memory of its own they may become
/// anything.
using CrossEntropy = void(int64_t rows, int64_t vocabulary, const int32_t* targets, const CrossEntropyOptions& options,
                          float* logits, Reals gradient, double* loss, double* log_total);

}  // namespace heddle
