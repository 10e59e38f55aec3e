// Numbers that describe one routing decision or load vector.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace heddle {

/// -sum p ln p / ln E of the shares p of the load; 1 uniform, 0 one expert (or no slots, or E = 1).
double normalised_entropy(std::span<const double> load);
/// Largest load over the sum; 0 without slots.
double largest_share(std::span<const double> load);
/// Experts without a slot.
int64_t dead_experts(std::span<const double> load);
/// Expected |A and B| / k of two independent choices of k experts whose inclusion probabilities are those of the loads:
/// sum_e q_e r_e / k with q_e = k load_e / sum(load). Uniform loads give k / E.
double chance_overlap(std::span<const double> load_a, std::span<const double> load_b, int64_t k);

/// Experts that a token has met after each of `loops` loops if every loop chose k of `experts` at random, uniformly:
/// E (1 - (1 - k/E)^t), t = 1 .. loops.
std::vector<double> chance_distinct(int64_t experts, int64_t k, int64_t loops);
/// Mutual information of expert and loop in nats, slots weighed alike, from the loads of the loops [loops][experts]: 0
/// if all loops load their experts in the same shares, at most ln(loops).
double loop_information(const std::vector<std::vector<double>>& loads);

}  // namespace heddle
