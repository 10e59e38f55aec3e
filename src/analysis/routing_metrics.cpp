#include "analysis/routing_metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace heddle {

namespace {
double sum_of(std::span<const double> load) {
  return std::accumulate(load.begin(), load.end(), 0.0);
}
}  // namespace

double normalised_entropy(std::span<const double> load) {
  const double total = sum_of(load);
  if (total <= 0 || load.size() < 2) return 0;
  double entropy = 0;
  for (const double slots : load)
    if (slots > 0) entropy -= slots / total * std::log(slots / total);
  return entropy / std::log(static_cast<double>(load.size()));
}

double largest_share(std::span<const double> load) {
  const double total = sum_of(load);
  return total <= 0 ? 0 : *std::max_element(load.begin(), load.end()) / total;
}

int64_t dead_experts(std::span<const double> load) {
  return std::count(load.begin(), load.end(), 0.0);
}

double chance_overlap(std::span<const double> load_a, std::span<const double> load_b, int64_t k) {
  const double total_a = sum_of(load_a), total_b = sum_of(load_b);
  if (total_a <= 0 || total_b <= 0) return 0;
  double overlap = 0;
  for (size_t e = 0; e < load_a.size(); ++e)
    overlap += static_cast<double>(k) * load_a[e] / total_a * load_b[e] / total_b;
  return overlap;
}

std::vector<double> chance_distinct(int64_t experts, int64_t k, int64_t loops) {
  const auto all = static_cast<double>(experts);
  std::vector<double> distinct;
  double unmet = 1;
  for (int64_t t = 0; t < loops; ++t) {
    unmet *= 1 - static_cast<double>(k) / all;
    distinct.push_back(all * (1 - unmet));
  }
  return distinct;
}

double loop_information(const std::vector<std::vector<double>>& loads) {
  double total = 0;
  std::vector<double> of_expert;
  for (const std::vector<double>& load : loads) {
    total += sum_of(load);
    of_expert.resize(load.size());
    for (size_t e = 0; e < load.size(); ++e) of_expert[e] += load[e];
  }
  double information = 0;
  for (const std::vector<double>& load : loads) {
    const double of_loop = sum_of(load);
    for (size_t e = 0; e < load.size(); ++e)
      if (load[e] > 0) information += load[e] / total * std::log(load[e] * total / (of_loop * of_expert[e]));
  }
  return information;
}

}  // namespace heddle
