// The matrices that a parameter consists of, for optimizers that treat each as a whole: a 3-D tensor is one matrix per
// index of its first axis, a 2-D tensor one matrix or `pieces` equal ones side by side.
#pragma once

#include "autograd/parameter.h"

namespace heddle {

/// Equal matrices in a parameter's local part: number i starts at element i * step, its rows are `leading` apart.
struct Matrices {
  int64_t count = 1;
  int64_t rows = 0, columns = 0;
  int64_t leading = 0, step = 0;
  int64_t first = 0, global_count = 1;  ///< number of the first one among those of all ranks, and how many these are

  bool dense() const { return leading == columns; }
  int64_t elements() const { return rows * columns; }  ///< of one matrix
  /// Elements of the smallest stretch that holds whole matrices only: one matrix, or all that share their rows.
  int64_t unit() const { return dense() ? elements() : count * elements(); }
  int64_t longer_side() const { return rows > columns ? rows : columns; }
  int64_t shorter_side() const { return rows > columns ? columns : rows; }
};

/// For a parameter of two axes, or of three with pieces = 1.
Matrices matrices_of(const Parameter& p);

}  // namespace heddle
