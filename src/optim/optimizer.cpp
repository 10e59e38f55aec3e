#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "optim/gradients.h"

namespace heddle {

bool OptimizerConfig::by_matrix(const Parameter& p) const {
  if (name != "muon" && name != "muonh") return false;
  return p.role == Role::kMatrix || (p.role == Role::kRouter && muon.routers);
}

Optimizer::Optimizer(const OptimizerConfig& config, ParameterSet& parameters, ProcessGroups& groups,
                     const Kernels& kernels)
    : config_(config),
      parameters_(parameters),
      shards_(parameters, groups, config.zero, config.zero_block,
              [&config](const Parameter& p) { return config.by_matrix(p) ? matrices_of(p).unit() : 0; }),
      kernels_(kernels) {
  const auto zeros = [](int64_t count) { return Tensor::zeros({count}, Purpose::kOptimizer); };
  for (const Parameter& p : parameters.all()) {
    State state;
    state.owned = shards_.owned(p);
    state.first = zeros(state.owned.count);
    if (config.by_matrix(p)) {
      const Matrices m = matrices_of(p);
      const int64_t owned = state.owned.count / std::max<int64_t>(m.elements(), 1);
      if (config.muon.second_moment > 0) state.second = zeros(owned * m.longer_side());
      if (config.name == "muonh") state.target = zeros(owned);
      if (owned > 0) workspace_.reserve(m, config.muon);
    } else if (config.name != "sgd") {
      state.second = zeros(state.owned.count);
    }
    states_.push_back(std::move(state));
  }
}

double Optimizer::rate_of(const Parameter& p) const {
  double rate = config_.by_matrix(p) ? config_.muon.learning_rate : config_.learning_rate;
  if (p.role == Role::kEmbedding) rate *= config_.embedding_rate;
  if (p.role == Role::kHead) rate *= config_.head_rate;
  if (p.role == Role::kVector) rate *= config_.gain_rate;
  return p.tied_core ? rate / std::pow(static_cast<double>(config_.loops), config_.tied_rate_power) : rate;
}

double Optimizer::decay_of(const Parameter& p) const {
  return config_.decay == "matrices" && p.role == Role::kVector ? 0 : config_.weight_decay;
}

void Optimizer::step(double schedule_factor, int64_t global_step, double gradient_scale) {
  if (workspace_.wanted()) workspace_.allocate();
  const double muon_momentum = config_.muon.momentum_at(global_step);
  size_t i = 0;
  for (Parameter& p : parameters_.all()) {
    State& state = states_[i++];
    if (!p.has_gradient) continue;
    ++state.steps;
    const double rate = rate_of(p) * schedule_factor;
    if (config_.by_matrix(p))
      muon_step(p, state, rate, muon_momentum, gradient_scale);
    else if (config_.name == "sgd")
      sgd_step(p, state, rate, gradient_scale);
    else
      adamw_step(p, state, rate, gradient_scale);
  }
  workspace_.release();
  gather_weights(parameters_, shards_);
  parameters_.values_changed();
}

void Optimizer::sgd_step(Parameter& p, State& state, double rate, double gradient_scale) const {
  const SgdCoefficients c{static_cast<float>(rate), static_cast<float>(config_.momentum),
                          static_cast<float>(decay_of(p)), static_cast<float>(gradient_scale)};
  kernels_.sgd(state.owned.count, c, p.gradient.f32() + state.owned.first, p.value.f32() + state.owned.first,
               state.first.f32());
}

void Optimizer::adamw_step(Parameter& p, State& state, double rate, double gradient_scale) const {
  const double m = static_cast<double>(state.steps);
  AdamWCoefficients c;
  c.learning_rate = static_cast<float>(rate);
  c.beta1 = static_cast<float>(config_.beta1);
  c.beta2 = static_cast<float>(config_.beta2);
  c.eps = static_cast<float>(config_.eps);
  c.weight_decay = static_cast<float>(decay_of(p));
  c.gradient_scale = static_cast<float>(gradient_scale);
  c.inverse_correction1 = static_cast<float>(1 / (1 - std::pow(config_.beta1, m)));
  c.inverse_sqrt_correction2 = static_cast<float>(1 / std::sqrt(1 - std::pow(config_.beta2, m)));
  kernels_.adamw(state.owned.count, c, p.gradient.f32() + state.owned.first, p.value.f32() + state.owned.first,
                 state.first.f32(), state.second.f32());
}

void Optimizer::muon_step(Parameter& p, State& state, double rate, double momentum, double gradient_scale) {
  const Matrices m = matrices_of(p);
  if (config_.name == "muonh" && state.steps == 1) set_targets(p, state);
  const auto keep = static_cast<float>(momentum), add = static_cast<float>((1 - momentum) * gradient_scale);
  float* const u = workspace_.momentum.f32();
  const float* const gradient = p.gradient.f32() + state.owned.first;
  float* const moment = state.first.f32();
  const std::vector<float> targets = state.target.defined() ? state.target.get<float>() : std::vector<float>();
  int64_t number = 0;
  for (int64_t at = 0; at < state.owned.count; at += m.unit()) {
    kernels_.linear_combination(m.unit(), keep, moment + at, add, gradient + at, moment + at);
    kernels_.linear_combination(m.unit(), keep, moment + at, add, gradient + at, u);
    const int64_t pieces = m.unit() / m.elements();
    for (int64_t piece = 0; piece < pieces; ++piece, ++number) {
      float* x = u;
      if (!m.dense()) {
        x = workspace_.piece.f32();
        kernels_.copy_matrix(m.rows, m.columns, u + piece * m.step, m.leading, x, m.columns);
      }
      float* const second = state.second.defined() ? state.second.f32() + number * m.longer_side() : nullptr;
      muon_direction(config_.muon, m, kernels_, workspace_, x, second);
      float* const value = p.value.f32() + state.owned.first + at + piece * m.step;
      if (config_.name == "muonh")
        muonh_update(m, rate, targets[static_cast<size_t>(number)], x, value);
      else
        muon_update(m, rate, x, value);
    }
  }
}

void Optimizer::muon_update(const Matrices& m, double rate, const float* x, float* value) const {
  const double shape = std::sqrt(std::max(1.0, static_cast<double>(m.rows) / static_cast<double>(m.columns)));
  const MuonCoefficients c{static_cast<float>(rate * shape), static_cast<float>(config_.muon.weight_decay),
                           config_.muon.cautious};
  kernels_.muon_update(m.rows, m.columns, c, x, value, m.leading);
}

void Optimizer::muonh_update(const Matrices& m, double rate, float target, float* x, float* value) const {
  const auto onto_target = [&](float* matrix) {
    const double norm = std::sqrt(kernels_.sum_of_squares(m.elements(), matrix));
    kernels_.scale(m.elements(), static_cast<float>(static_cast<double>(target) / std::max(norm, 1e-10)), matrix,
                   matrix);
  };
  onto_target(x);
  kernels_.muon_update(m.rows, m.columns, {static_cast<float>(rate), 0, false}, x, value, m.leading);
  if (m.dense()) return onto_target(value);
  kernels_.copy_matrix(m.rows, m.columns, value, m.leading, x, m.columns);
  onto_target(x);
  kernels_.copy_matrix(m.rows, m.columns, x, m.columns, value, m.leading);
}

void Optimizer::set_targets(const Parameter& p, State& state) const {
  const Matrices m = matrices_of(p);
  const Tensor copy = Tensor::empty({m.dense() ? 0 : m.elements()}, Purpose::kWorkspace);
  std::vector<float> targets;
  for (int64_t i = 0; i < state.target.count(); ++i) {
    const float* matrix = p.value.f32() + state.owned.first + i * m.step;
    if (!m.dense()) {
      kernels_.copy_matrix(m.rows, m.columns, matrix, m.leading, copy.f32(), m.columns);
      matrix = copy.f32();
    }
    targets.push_back(static_cast<float>(std::sqrt(kernels_.sum_of_squares(m.elements(), matrix))));
  }
  state.target.set<float>(targets);
}

void Optimizer::weights_replaced(const Parameter& p, bool forget) {
  State& state = states_.at(index_of(p));
  if (forget) {
    state.steps = 0;
    for (const Tensor* t : {&state.first, &state.second})
      if (t->defined()) t->fill_zero();
  }
  if (state.target.defined()) set_targets(p, state);
}

std::vector<Optimizer::StateTensor> Optimizer::state_tensors(const Parameter& p) const {
  const State& state = states_.at(index_of(p));
  std::vector<StateTensor> tensors = {{"first", p.global_shape, p.global_offset() + state.owned.first, state.first}};
  if (!config_.by_matrix(p)) {
    if (state.second.defined()) tensors.push_back({"second", p.global_shape, tensors[0].first, state.second});
    return tensors;
  }
  const Matrices m = matrices_of(p);
  const int64_t first = m.first + state.owned.first / std::max<int64_t>(m.elements(), 1);
  if (state.second.defined())
    tensors.push_back({"second", {m.global_count, m.longer_side()}, first * m.longer_side(), state.second});
  if (state.target.defined()) tensors.push_back({"target", {m.global_count}, first, state.target});
  return tensors;
}

size_t Optimizer::index_of(const Parameter& p) const {
  size_t i = 0;
  for (const Parameter& q : parameters_.all()) {
    if (&q == &p) return i;
    ++i;
  }
  fail("parameter '{}' is not of this optimizer", p.name);
}

double clip_factor(double norm, double max_norm) {
  if (max_norm <= 0) return 1;
  return std::min(1.0, max_norm / (norm + 1e-6));
}

}  // namespace heddle
