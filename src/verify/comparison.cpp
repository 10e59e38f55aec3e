#include "verify/comparison.h"

#include <cmath>
#include <limits>

#include "support/error.h"

namespace heddle {

void Comparison::declare(const std::string& quantity, double tolerance) {
  quantities_.push_back({quantity, tolerance, {}});
}

Comparison::Sums& Comparison::sums(const std::string& quantity, const std::string& tensor) {
  for (Quantity& q : quantities_)
    if (q.name == quantity) return q.tensors[tensor];
  throw std::logic_error("quantity '" + quantity + "' was not declared");
}

void Comparison::add(const std::string& quantity, const std::string& tensor, std::span<const float> found,
                     std::span<const float> expected) {
  require(found.size() == expected.size(), "{} {}: {} elements against {}", quantity, tensor, found.size(),
          expected.size());
  Sums& s = sums(quantity, tensor);
  for (size_t i = 0; i < found.size(); ++i) {
    const double a = static_cast<double>(found[i]), b = static_cast<double>(expected[i]);
    s.difference += (a - b) * (a - b);
    s.reference += b * b;
  }
}

void Comparison::add(const std::string& quantity, const std::string& tensor, double found, double expected) {
  Sums& s = sums(quantity, tensor);
  s.difference += (found - expected) * (found - expected);
  s.reference += expected * expected;
}

void Comparison::add_differences(const std::string& quantity, const std::string& tensor, int64_t differences) {
  sums(quantity, tensor).differing += static_cast<double>(differences);
}

std::vector<QuantityResult> Comparison::finish(Communicator& world) const {
  std::vector<double> all;
  for (const Quantity& q : quantities_)
    for (const auto& [name, s] : q.tensors) all.insert(all.end(), {s.difference, s.reference, s.differing});
  world.all_reduce_sum(std::span<double>(all));
  std::vector<QuantityResult> results;
  size_t next = 0;
  for (const Quantity& q : quantities_) {
    QuantityResult r;
    r.quantity = q.name;
    r.tolerance = q.tolerance;
    if (!q.tensors.empty()) r.status = QuantityResult::Status::kPass;
    for (const auto& [name, unused] : q.tensors) {
      const double difference = std::sqrt(all[next]), reference = std::sqrt(all[next + 1]), differing = all[next + 2];
      next += 3;
      double error = differing > 0 ? differing : (reference > 0 ? difference / reference : difference);
      if (!std::isfinite(error)) error = std::numeric_limits<double>::infinity();
      if (error > r.error || r.worst.empty()) r.worst = name;
      r.error = std::max(r.error, error);
    }
    if (!(r.error <= r.tolerance)) r.status = QuantityResult::Status::kFail;
    results.push_back(std::move(r));
  }
  return results;
}

}  // namespace heddle
