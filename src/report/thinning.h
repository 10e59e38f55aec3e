// A long log as few points: consecutive rows share a point, which shows their mean and, where spikes matter, their
// range.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace heddle::report {

/// Rows [first, last) of a log.
struct Bucket {
  size_t first = 0, last = 0;
};

/// All rows in order, in at most `most` buckets of nearly equal size; none without rows.
std::vector<Bucket> buckets(size_t rows, size_t most);

/// Of the finite ones among value(row); NaN where none is.
struct Summary {
  double mean = std::nan(""), low = std::nan(""), high = std::nan("");
};

template <typename Value>
Summary summarise(const Bucket& bucket, Value value) {
  Summary s;
  double sum = 0, count = 0;
  for (size_t row = bucket.first; row < bucket.last; ++row) {
    const double v = value(row);
    if (!std::isfinite(v)) continue;
    s.low = count == 0 ? v : std::fmin(s.low, v);
    s.high = count == 0 ? v : std::fmax(s.high, v);
    sum += v;
    count += 1;
  }
  if (count > 0) s.mean = sum / count;
  return s;
}

}  // namespace heddle::report
