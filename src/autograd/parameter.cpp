#include "autograd/parameter.h"

#include "support/narrow.h"

namespace heddle {

namespace {
constexpr int64_t kAlignment = 16;  // floats in 64 bytes
}

Parameter& ParameterSet::lay_out(Parameter& p) {
  Arena& a = arena(p.sharing);
  require(!a.values.defined(), "parameter '{}' came after the memory", p.name);
  p.place = a.ranges.size();
  const int64_t first = div_up(a.count, kAlignment) * kAlignment;
  a.ranges.push_back({first, p.local_count()});
  a.count = a.ranges.back().end();
  return p;
}

Parameter& ParameterSet::add(std::string name, Shape global_shape) {
  Parameter& p = parameters_.emplace_back();
  p.name = std::move(name);
  p.local_shape = global_shape;
  p.global_shape = std::move(global_shape);
  return lay_out(p);
}

Parameter& ParameterSet::add_experts(std::string name, Shape global_shape, int64_t local_first, int64_t local_count) {
  require(local_first >= 0 && local_first + local_count <= global_shape.at(0), "experts {}+{} of {}", local_first,
          local_count, global_shape[0]);
  Parameter& p = parameters_.emplace_back();
  p.name = std::move(name);
  p.sharing = Sharing::kExpert;
  p.first = local_first;
  p.local_shape = global_shape;
  p.local_shape[0] = local_count;
  p.global_shape = std::move(global_shape);
  return lay_out(p);
}

void ParameterSet::allocate_values() {
  for (Arena& a : arenas_) a.values = Tensor::zeros({a.count}, Purpose::kWeights);
  for (Parameter& p : parameters_) p.value = arena(p.sharing).values.flat(range(p).first, p.local_shape);
}

void ParameterSet::allocate_gradients() {
  for (Arena& a : arenas_) {
    a.gradients = Tensor::empty({a.count}, Purpose::kGradients);
    // Only the gaps: what a parameter holds is written before it is read.
    int64_t end = 0;
    for (const ArenaRange& range : a.ranges) {
      a.gradients.flat(end, {range.first - end}).fill_zero();
      end = range.end();
    }
  }
  for (Parameter& p : parameters_) {
    p.gradient = arena(p.sharing).gradients.flat(range(p).first, p.local_shape);
    p.has_gradient = false;
  }
}

void ParameterSet::allocate_narrow(const std::function<bool(const Parameter&)>& wanted) {
  for (Parameter& p : parameters_)
    if (wanted(p)) p.narrow = Tensor::empty(p.local_shape, Purpose::kWeights, DType::kBfloat16);
  narrow_is_old_ = true;
}

void ParameterSet::refresh_narrow(const Kernels& kernels) {
  if (!narrow_is_old_) return;
  for (const Parameter& p : parameters_)
    if (p.narrow.defined()) kernels.scale(p.value.count(), 1, p.value.reals(), p.narrow.reals());
  narrow_is_old_ = false;
}

void ParameterSet::clear_gradients() {
  for (Parameter& p : parameters_) p.has_gradient = p.summed = false;
}

Parameter& ParameterSet::find(const std::string& name) {
  for (Parameter& p : parameters_)
    if (p.name == name) return p;
  fail("there is no parameter '{}' in this model", name);
}

ArenaRange ParameterSet::range(const Parameter& p) const {
  return arena(p.sharing).ranges.at(p.place);
}

int64_t ParameterSet::arena_count(Sharing sharing) const {
  return arena(sharing).count;
}

std::span<float> ParameterSet::values(Sharing sharing, ArenaRange range) const {
  return arena(sharing).values.floats().subspan(static_cast<size_t>(range.first), static_cast<size_t>(range.count));
}

std::span<float> ParameterSet::gradients(Sharing sharing, ArenaRange range) const {
  return arena(sharing).gradients.floats().subspan(static_cast<size_t>(range.first), static_cast<size_t>(range.count));
}

std::vector<ArenaRange> ParameterSet::gradient_runs(Sharing sharing) const {
  return runs(sharing, [](const Parameter& p) { return p.has_gradient; });
}

std::vector<ArenaRange> ParameterSet::runs(Sharing sharing, const std::function<bool(const Parameter&)>& wanted) const {
  std::vector<ArenaRange> runs;
  bool neighbour = false;
  for (const Parameter& p : parameters_) {
    if (p.sharing != sharing) continue;
    const ArenaRange part = range(p);
    const bool with = wanted(p);
    if (with && neighbour)
      runs.back().count = part.end() - runs.back().first;
    else if (with)
      runs.push_back(part);
    neighbour = with;
  }
  return runs;
}

int64_t ParameterSet::global_count() const {
  int64_t total = 0;
  for (const Parameter& p : parameters_) total += element_count(p.global_shape);
  return total;
}

}  // namespace heddle
