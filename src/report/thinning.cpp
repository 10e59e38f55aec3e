#include "report/thinning.h"

#include <algorithm>

namespace heddle::report {

std::vector<Bucket> buckets(size_t rows, size_t most) {
  const size_t count = std::min(rows, most);
  std::vector<Bucket> all;
  for (size_t i = 0; i < count; ++i) all.push_back({rows * i / count, rows * (i + 1) / count});
  return all;
}

}  // namespace heddle::report
