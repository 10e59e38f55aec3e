#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "optim/gradients.h"

namespace heddle {

Optimizer::Optimizer(const OptimizerConfig& config, ParameterSet& parameters, ProcessGroups& groups,
                     const Kernels& kernels)
    : config_(config),
      parameters_(parameters),
      shards_(parameters, groups, config.zero, config.zero_block),
      kernels_(kernels) {
  for (const Parameter& p : parameters.all()) {
    State state;
    state.owned = shards_.owned(p);
    state.first = Tensor::zeros({state.owned.count}, Purpose::kOptimizer);
    if (config.name == "adamw") state.second = Tensor::zeros({state.owned.count}, Purpose::kOptimizer);
    states_.push_back(std::move(state));
  }
}

void Optimizer::step(double learning_rate, double gradient_scale) {
  size_t i = 0;
  for (Parameter& p : parameters_.all()) {
    State& state = states_[i++];
    if (!p.has_gradient) continue;
    ++state.steps;
    const int64_t count = state.owned.count;
    float* const value = p.value.f32() + state.owned.first;
    const float* const gradient = p.gradient.f32() + state.owned.first;
    if (config_.name == "sgd") {
      const SgdCoefficients c{static_cast<float>(learning_rate), static_cast<float>(config_.momentum),
                              static_cast<float>(config_.weight_decay), static_cast<float>(gradient_scale)};
      kernels_.sgd(count, c, gradient, value, state.first.f32());
      continue;
    }
    const double m = static_cast<double>(state.steps);
    AdamWCoefficients c;
    c.learning_rate = static_cast<float>(learning_rate);
    c.beta1 = static_cast<float>(config_.beta1);
    c.beta2 = static_cast<float>(config_.beta2);
    c.eps = static_cast<float>(config_.eps);
    c.weight_decay = static_cast<float>(config_.weight_decay);
    c.gradient_scale = static_cast<float>(gradient_scale);
    c.inverse_correction1 = static_cast<float>(1 / (1 - std::pow(config_.beta1, m)));
    c.inverse_sqrt_correction2 = static_cast<float>(1 / std::sqrt(1 - std::pow(config_.beta2, m)));
    kernels_.adamw(count, c, gradient, value, state.first.f32(), state.second.f32());
  }
  gather_weights(parameters_, shards_);
}

double clip_factor(double norm, double max_norm) {
  if (max_norm <= 0) return 1;
  return std::min(1.0, max_norm / (norm + 1e-6));
}

}  // namespace heddle
