#include "launch/device_check/curve.h"

#include <algorithm>
#include <cmath>

namespace heddle::device_check {

CurveComparison compare_curves(const std::vector<double>& reference, const std::vector<double>& losses,
                               const CurveTolerance& tolerance) {
  constexpr int64_t kFirst = 10, kLast = 20;
  CurveComparison result;
  result.steps = static_cast<int64_t>(std::min(reference.size(), losses.size()));
  const int64_t last_steps = std::min(kLast, result.steps);
  double sum = 0;
  bool finite = true;
  for (int64_t i = 0; i < result.steps; ++i) {
    const double difference = losses[static_cast<size_t>(i)] - reference[static_cast<size_t>(i)];
    finite = finite && std::isfinite(difference);
    result.largest = std::max(result.largest, std::abs(difference));
    if (i < kFirst) result.largest_first = std::max(result.largest_first, std::abs(difference));
    if (i >= result.steps - last_steps) sum += difference;
  }
  if (result.steps > 0) result.mean_last = std::abs(sum / static_cast<double>(last_steps));
  result.passed =
      result.steps > 0 && finite && result.largest_first <= tolerance.first && result.mean_last <= tolerance.last;
  return result;
}

nlohmann::json curve_json(const std::vector<double>& reference, const std::vector<double>& losses,
                          const CurveTolerance& tolerance) {
  const CurveComparison c = compare_curves(reference, losses, tolerance);
  nlohmann::json points = nlohmann::json::array();
  constexpr int64_t kEvery = 10;
  for (int64_t i = 0; i < c.steps; ++i)
    if (i == 0 || (i + 1) % kEvery == 0)
      points.push_back({{"step", i + 1},
                        {"reference", reference[static_cast<size_t>(i)]},
                        {"loss", losses[static_cast<size_t>(i)]}});
  return {{"passed", c.passed},
          {"steps", c.steps},
          {"largest_first", c.largest_first},
          {"tolerance_first", tolerance.first},
          {"mean_last", c.mean_last},
          {"tolerance_last", tolerance.last},
          {"largest", c.largest},
          {"points", std::move(points)}};
}

}  // namespace heddle::device_check
