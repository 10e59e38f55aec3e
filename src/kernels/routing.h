// Choice of experts and mixing weights from router scores (docs/loom.md section 3.6), fp32 throughout.
#pragma once

#include "kernels/types.h"

namespace heddle {

/// index[r, 0..k) = experts with the k largest selection values score + bias, sorted by falling value; equal values go
/// to the lower expert index. A NaN sorts below every number. bias may be nullptr. 1 <= k <= experts.
using TopK = void(int64_t rows, int64_t experts, int64_t k, const float* scores, const float* bias, int32_t* index);

/// Mixing weights of the chosen, renormalised when asked:
///   w[r,j] = s[r,index[r,j]] / max(sum_j s[r,index[r,j]], 1e-9)     or     w[r,j] = s[r,index[r,j]].
/// keep [rows,k] (nullptr: all kept): slots with 0 (dropped by capacity) get w = 0, and with renormalise the weights of
/// a row are divided by max(sum of the kept, 1e-9) once more. Pass keep only where some expert exceeded its capacity.
using RouteWeightsForward = void(int64_t rows, int64_t experts, int64_t k, bool renormalise, const float* scores,
                                 const int32_t* index, const uint8_t* keep, float* weights);
/// dscores [rows,experts]: gradient through numerators and denominators, not through choice or keep; entries that were
/// not chosen get zero (or nothing with accumulate).
using RouteWeightsBackward = void(int64_t rows, int64_t experts, int64_t k, bool renormalise, const float* scores,
                                  const int32_t* index, const uint8_t* keep, const float* dweights,
                                  GradientOut dscores);

/// share[e] = sum over rows of scores[r,e] / max(sum_e scores[r,e], 1e-9); double sums over rows in a fixed order that
/// does not depend on the thread count; zeros without rows.
using ExpertShareForward = void(int64_t rows, int64_t experts, const float* scores, float* share);
using ExpertShareBackward = void(int64_t rows, int64_t experts, const float* scores, const float* dshare,
                                 GradientOut dscores);

}  // namespace heddle
