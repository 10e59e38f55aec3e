// A trained tensor: its global name and shape, the part of it that this rank holds, and its gradient.
#pragma once

#include <deque>
#include <string>

#include "tensor/tensor.h"

namespace heddle {

/// Which ranks hold the same elements, and so sum their gradients.
enum class Sharing { kReplicated, kExpert };

struct Parameter {
  std::string name;  ///< as in files, e.g. "core.0.attn.q_proj.weight"
  Shape global_shape;
  Sharing sharing = Sharing::kReplicated;
  int64_t first = 0;          ///< first index of the first axis that this rank holds (experts only)
  Tensor value;               ///< local part
  Tensor gradient;            ///< like value; memory stays allocated between steps
  bool has_gradient = false;  ///< something was written to `gradient` since clear_gradients()

  /// Offset of the local part in the global tensor, in elements.
  int64_t global_offset() const { return first * (count_per_index()); }
  int64_t count_per_index() const { return value.dim(0) == 0 ? 0 : value.count() / value.dim(0); }
};

/// All parameters of a model in a fixed order that is the same on every rank. Gradients of equal sharing lie in one
/// contiguous arena in this order, so that neighbours are reduced in one call.
class ParameterSet {
 public:
  /// `local_first` / `local_count`: the part of the first axis this rank holds (experts).
  Parameter& add(std::string name, Shape global_shape);
  Parameter& add_experts(std::string name, Shape global_shape, int64_t local_first, int64_t local_count);

  void allocate_gradients();
  void clear_gradients();  ///< forgets, does not zero: the next backward pass overwrites

  std::deque<Parameter>& all() { return parameters_; }
  const std::deque<Parameter>& all() const { return parameters_; }
  Parameter& find(const std::string& name);

  /// Maximal runs of neighbouring gradients that were written, as spans of the arenas.
  std::vector<std::span<float>> gradient_runs(Sharing sharing) const;

  int64_t global_count() const;  ///< elements of all tensors, all experts

 private:
  std::deque<Parameter> parameters_;
};

}  // namespace heddle
