// Whether two runs of one configuration learn alike: their losses step by step.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

namespace heddle::device_check {

/// Nats per token. Runs that round differently agree closely at first and drift apart later, since near ties among
/// experts fall otherwise: so the first steps are held one by one, and the last by their mean.
struct CurveTolerance {
  double first = 0;  ///< largest difference of each of the first steps
  double last = 0;   ///< difference of the means of the last steps
};

struct CurveComparison {
  int64_t steps = 0;         ///< that both have
  double largest_first = 0;  ///< over the first 10 steps
  double mean_last = 0;      ///< |mean difference| over the last 20 steps, or fewer
  double largest = 0;        ///< over all
  bool passed = false;
};

/// Compares as many steps as the shorter list has; fails where that is none, or where a loss is not finite.
CurveComparison compare_curves(const std::vector<double>& reference, const std::vector<double>& losses,
                               const CurveTolerance& tolerance);

/// The comparison and every tenth loss of both, as JSON.
nlohmann::json curve_json(const std::vector<double>& reference, const std::vector<double>& losses,
                          const CurveTolerance& tolerance);

}  // namespace heddle::device_check
