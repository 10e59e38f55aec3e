#include "optim/gradients.h"

#include <cmath>

namespace heddle {

void reduce_gradients(ParameterSet& parameters, ProcessGroups& groups) {
  if (groups.world().size() > 1)
    for (const std::span<float> run : parameters.gradient_runs(Sharing::kReplicated))
      groups.world().all_reduce_sum(run);
  if (groups.expert_replicas().size() > 1)
    for (const std::span<float> run : parameters.gradient_runs(Sharing::kExpert))
      groups.expert_replicas().all_reduce_sum(run);
}

double gradient_norm(ParameterSet& parameters, ProcessGroups& groups, const Kernels& kernels) {
  double replicated = 0, experts = 0;
  for (const Parameter& p : parameters.all()) {
    if (!p.has_gradient) continue;
    const double square = kernels.sum_of_squares(p.gradient.count(), p.gradient.f32());
    (p.sharing == Sharing::kExpert ? experts : replicated) += square;
  }
  if (groups.expert_parallel().size() > 1) groups.expert_parallel().all_reduce_sum(std::span<double>(&experts, 1));
  return std::sqrt(replicated + experts);
}

}  // namespace heddle
