// Errors of quantities against a reference, gathered over tensors and ranks.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "verify/reference_case.h"

namespace heddle {

/// Every rank adds the parts that it holds; finish() sums over ranks. All ranks add the same (quantity, tensor) names,
/// some with no elements.
class Comparison {
 public:
  /// Declares a quantity in the order of the report. Without any add() it stays "not checked".
  void declare(const std::string& quantity, double tolerance);
  /// Part of a tensor: relative error |a - b| / |b| over all its parts.
  void add(const std::string& quantity, const std::string& tensor, std::span<const float> found,
           std::span<const float> expected);
  void add(const std::string& quantity, const std::string& tensor, double found, double expected);
  /// Entries that differ where they must be equal, out of `total`.
  void add_differences(const std::string& quantity, const std::string& tensor, int64_t differences);

  std::vector<QuantityResult> finish(Communicator& world) const;

 private:
  struct Sums {
    double difference = 0, reference = 0;  ///< sums of squares
    double differing = 0;                  ///< entries, for exact quantities; non-finite values count here too
  };
  struct Quantity {
    std::string name;
    double tolerance = 0;
    std::map<std::string, Sums> tensors;
  };
  Sums& sums(const std::string& quantity, const std::string& tensor);
  std::vector<Quantity> quantities_;
};

}  // namespace heddle
