// What statistics of a step add up, where the tensors are: none of these makes the host wait for a device. Sums are
// made in double and in a fixed order that does not depend on the thread count; counts are exact.
#pragma once

#include "kernels/types.h"

namespace heddle {

/// histogram[c] += rows whose entries of a and of b [rows,choices] have c values in common, c = 0 .. choices. The
/// entries of one row differ from each other.
using CountOverlaps = void(int64_t rows, int64_t choices, const int32_t* a, const int32_t* b, int64_t* histogram);

/// *fresh += entries of index [rows,choices] that are in none of the same row's entries of earlier
/// [visits,rows,choices]: what a visit adds to the set of experts that a token has met.
using CountFresh = void(int64_t visits, int64_t rows, int64_t choices, const int32_t* earlier, const int32_t* index,
                        int64_t* fresh);

/// *sum += sum over rows of -sum_e p_e ln p_e (nats), where p is a row of weights [rows,width] >= 0 over its sum; a row
/// of zeros counts as 0.
using AddEntropy = void(int64_t rows, int64_t width, const float* weights, double* sum);

/// *sum += sum over rows of sum_e min(p_e, q_e), where p puts the row's weights of a, over their sum, on the experts
/// that index a names, and q likewise: 1 for equal mixtures, 0 for experts that are all different. [rows,choices]; the
/// entries of one row differ from each other. A row whose weights are all zero in a or in b counts as 0.
using AddWeightOverlap = void(int64_t rows, int64_t choices, const int32_t* index_a, const float* weights_a,
                              const int32_t* index_b, const float* weights_b, double* sum);

/// *maximum = the largest of *maximum and all of x; a NaN among them wins.
using KeepMaximum = void(int64_t count, const float* x, float* maximum);

/// Compares the rows of a and b [rows,width]: sums[0] += sum of squares of a, sums[1] += that of b, sums[2] += that of
/// a - b, sums[3] += cosine of the two (0 where one of them is zero), summed over rows.
using AddComparison = void(int64_t rows, int64_t width, ConstReals a, ConstReals b, double* sums);

/// sum[width] += x_r / |x_r| over the rows of x [rows,width]; rows of zeros add nothing. The mean cosine over all pairs
/// of n rows is (|sum|^2 - n) / (n (n - 1)).
using AddUnitRows = void(int64_t rows, int64_t width, ConstReals x, double* sum);

/// *sum += sum of x.
using AddDoubles = void(int64_t count, const double* x, double* sum);

/// *sum += scale * sum of squares of x.
using AddSquares = void(int64_t count, double scale, ConstReals x, double* sum);

/// *sum += sum over rows of the mean square before a norm that divided by it, 1 / inverse_rms^2 - eps.
using AddMeanSquares = void(int64_t rows, double eps, const float* inverse_rms, double* sum);

}  // namespace heddle
