#include "autograd/parameter.h"

namespace heddle {

Parameter& ParameterSet::add(std::string name, Shape global_shape) {
  Parameter& p = parameters_.emplace_back();
  p.name = std::move(name);
  p.value = Tensor::zeros(global_shape, Purpose::kWeights);
  p.global_shape = std::move(global_shape);
  return p;
}

Parameter& ParameterSet::add_experts(std::string name, Shape global_shape, int64_t local_first, int64_t local_count) {
  require(local_first >= 0 && local_first + local_count <= global_shape.at(0), "experts {}+{} of {}", local_first,
          local_count, global_shape[0]);
  Parameter& p = parameters_.emplace_back();
  p.name = std::move(name);
  p.sharing = Sharing::kExpert;
  p.first = local_first;
  Shape local_shape = global_shape;
  local_shape[0] = local_count;
  p.value = Tensor::zeros(std::move(local_shape), Purpose::kWeights);
  p.global_shape = std::move(global_shape);
  return p;
}

void ParameterSet::allocate_gradients() {
  for (const Sharing sharing : {Sharing::kReplicated, Sharing::kExpert}) {
    int64_t total = 0;
    for (const Parameter& p : parameters_)
      if (p.sharing == sharing) total += p.value.count();
    const Tensor arena = Tensor::empty({total}, Purpose::kGradients);
    int64_t first = 0;
    for (Parameter& p : parameters_) {
      if (p.sharing != sharing) continue;
      p.gradient = arena.flat(first, p.value.shape());
      p.has_gradient = false;
      first += p.value.count();
    }
  }
}

void ParameterSet::clear_gradients() {
  for (Parameter& p : parameters_) p.has_gradient = false;
}

Parameter& ParameterSet::find(const std::string& name) {
  for (Parameter& p : parameters_)
    if (p.name == name) return p;
  fail("there is no parameter '{}' in this model", name);
}

std::vector<std::span<float>> ParameterSet::gradient_runs(Sharing sharing) const {
  std::vector<std::span<float>> runs;
  for (const Parameter& p : parameters_) {
    if (p.sharing != sharing || !p.has_gradient) continue;
    const std::span<float> part = p.gradient.floats();
    if (!runs.empty() && runs.back().data() + runs.back().size() == part.data())
      runs.back() = {runs.back().data(), runs.back().size() + part.size()};
    else
      runs.push_back(part);
  }
  return runs;
}

int64_t ParameterSet::global_count() const {
  int64_t total = 0;
  for (const Parameter& p : parameters_) total += element_count(p.global_shape);
  return total;
}

}  // namespace heddle
