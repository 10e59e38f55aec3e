// Matrix products, row-major. The two factors are stored alike; sums are float32, and the result is float32 or stored
// as the factors are.
#pragma once

#include "kernels/types.h"

namespace heddle {

enum class Transpose { kNo, kYes };

/// C[m,n] = alpha * op(A)[m,k] op(B)[k,n] + beta * C. Leading dimensions are those of the stored matrices.
/// beta = 0 never reads C; k = 0 gives beta * C (zeros for beta = 0); m = 0 or n = 0 does nothing.
using Matmul = void(Transpose a_transpose, Transpose b_transpose, int64_t m, int64_t n, int64_t k, float alpha,
                    ConstReals a, int64_t lda, ConstReals b, int64_t ldb, float beta, Reals c, int64_t ldc);

/// Products of the rows of each group with the group's own matrix; group g owns rows offsets[g] .. offsets[g+1]
/// (offsets has groups + 1 entries, ascending, on the host). A group without rows writes nothing in the first two
/// forms.

/// y[rows,n] = x[rows,k] w[g]^T, w [groups,n,k].
using GroupedMatmulForward = void(int64_t groups, const int64_t* offsets, int64_t n, int64_t k, ConstReals x,
                                  ConstReals w, Reals y);
/// dx[rows,k] = dy[rows,n] w[g] (or += with accumulate).
using GroupedMatmulInputGradient = void(int64_t groups, const int64_t* offsets, int64_t n, int64_t k, ConstReals dy,
                                        ConstReals w, bool accumulate, Reals dx);
/// dw[g] = dy_g^T x_g (or += with accumulate), dw [groups,n,k]. A group without rows gives exactly zero (or adds
/// nothing).
using GroupedMatmulWeightGradient = void(int64_t groups, const int64_t* offsets, int64_t n, int64_t k, ConstReals dy,
                                         ConstReals x, bool accumulate, float* dw);

}  // namespace heddle
