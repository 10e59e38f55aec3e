// Sums over rows by columns, in an order that depends on neither thread count nor timing: columns in stripes, rows in
// blocks of a fixed size whose sums are added in double.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/types.h"
#include "support/narrow.h"
#include "support/parallel.h"

namespace heddle::cpu {

inline constexpr int64_t kColumnStripe = 64, kRowBlock = 64;

/// One number for each column of a stripe.
template <typename Number>
using Stripe = std::array<Number, kColumnStripe>;

/// Several sums at once. add(r, first, columns, sums) adds row r of columns [first, first + columns) to
/// std::array<Stripe<float>, kSums>; store(d, totals) receives std::array<double, kSums> of column d.
template <size_t kSums, typename Add, typename Store>
void sum_columns(int64_t rows, int64_t width, Add add, Store store) {
  parallel_for(div_up(width, kColumnStripe), rows * width > kParallelElements, [=](int64_t stripe) {
    const int64_t first = stripe * kColumnStripe, columns = std::min(kColumnStripe, width - first);
    std::array<Stripe<double>, kSums> total{};
    for (int64_t block = 0; block < rows; block += kRowBlock) {
      std::array<Stripe<float>, kSums> sums{};
      for (int64_t r = block; r < std::min(block + kRowBlock, rows); ++r) add(r, first, columns, sums);
      for (size_t s = 0; s < kSums; ++s)
        for (size_t d = 0; d < total[s].size(); ++d) total[s][d] += static_cast<double>(sums[s][d]);
    }
    for (int64_t d = 0; d < columns; ++d) {
      std::array<double, kSums> column;
      for (size_t s = 0; s < kSums; ++s) column[s] = total[s][static_cast<size_t>(d)];
      store(first + d, column);
    }
  });
}

/// Writes one element of a gradient.
inline void put(const GradientOut& out, int64_t i, double value) {
  if (!out) return;
  out.data[i] = static_cast<float>(out.accumulate ? static_cast<double>(out.data[i]) + value : value);
}

}  // namespace heddle::cpu
