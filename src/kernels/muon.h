// What Muon does to a matrix besides products (docs/model_family.md sections 5 and 9). Matrices are row-major; those
// without a leading dimension are dense.
#pragma once

#include <cstdint>

namespace heddle {

/// to = from, both [rows,columns] with their own leading dimensions; they do not overlap.
using CopyMatrix = void(int64_t rows, int64_t columns, const float* from, int64_t from_leading, float* to,
                        int64_t to_leading);

/// Each row of x [rows,columns] divided by max(its Euclidean norm, floor), in place; sums in double.
using NormaliseRows = void(int64_t rows, int64_t columns, float floor, float* x);

/// Evens out the rows (rows >= columns) or columns of x [rows,columns] by a running mean of their squares, and keeps
/// the norm of x: with v the mean of x^2 along each of them, n = min(rows, columns) the number averaged,
///   S <- b2 S + (1-b2) v;  s = 1 / sqrt(max(S, 1e-10));  x <- x s |x| / max(sqrt(sum of n v s^2), 1e-10).
/// second: S, and mean_square: room for v, both [max(rows, columns)]. Sums in double, in an order that does not depend
/// on the thread count. An empty matrix leaves S as it is.
using ReduceVariance = void(int64_t rows, int64_t columns, float beta2, float* x, float* second, float* mean_square);

struct MuonCoefficients {
  float rate = 0;
  float weight_decay = 0;
  bool cautious = false;  ///< an element decays only where x p >= 0
};

/// p <- p (1 - rate wd) - rate x; x [rows,columns] dense, p with a leading dimension.
using MuonUpdate = void(int64_t rows, int64_t columns, const MuonCoefficients& c, const float* x, float* parameter,
                        int64_t leading);

}  // namespace heddle
