// A trained tensor: its global name and shape, the part of it that this rank holds, and its gradient.
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "kernels/kernels.h"
#include "tensor/tensor.h"

namespace heddle {

/// Which ranks hold the same elements, and so sum their gradients.
enum class Sharing { kReplicated, kExpert };

/// What a tensor is to the optimizer (docs/model_family.md sections 5 and 9). kVector is everything outside the decay
/// set "matrices": gains of norms, hyper.*, reinject.alpha, dt_bias and A_log, biases of routers, condition.loop and
/// condition.embedding.
enum class Role { kMatrix, kEmbedding, kHead, kRouter, kVector };

struct Parameter {
  std::string name;  ///< as in files, e.g. "core.0.attn.q_proj.weight"
  Shape global_shape;
  Sharing sharing = Sharing::kReplicated;
  int64_t first = 0;          ///< first index of the first axis that this rank holds (experts only)
  Shape local_shape;          ///< of the part that this rank holds
  Tensor value;               ///< local part
  Tensor narrow;              ///< bfloat16 copy of `value` that products read; undefined where they read `value`
  Tensor gradient;            ///< like value; memory stays allocated between steps
  size_t place = 0;           ///< among the parameters of this sharing
  bool has_gradient = false;  ///< something was written to `gradient` since clear_gradients()
  bool summed = false;        ///< ranks have begun to sum `gradient`: nothing may be added any more

  // The optimizer reads these; the model sets them behind add().
  Role role = Role::kMatrix;
  bool tied_core = false;  ///< serves several loops: its rate is divided by loops^tied_rate_power
  int64_t pieces = 1;      ///< equal matrices that a 2-D tensor stacks along piece_axis (shared experts)
  int piece_axis = 0;      ///< 0: pieces of rows, 1: of columns. A 3-D tensor is one matrix per index of its first axis

  /// Offset of the local part in the global tensor, in elements.
  int64_t global_offset() const {
    return global_shape[0] == 0 ? 0 : first * (element_count(global_shape) / global_shape[0]);
  }
  int64_t local_count() const { return element_count(local_shape); }
};

/// A stretch of an arena: elements [first, first + count).
struct ArenaRange {
  int64_t first = 0, count = 0;
  int64_t end() const { return first + count; }
};

/// All parameters of a model in a fixed order that is the same on every rank. Values of equal sharing lie in one
/// contiguous arena in this order, and their gradients in another one, so that neighbours travel in one call. Every
/// parameter starts at a multiple of 64 bytes; the gaps hold zeros.
class ParameterSet {
 public:
  /// Names a parameter; its memory comes with allocate_values().
  Parameter& add(std::string name, Shape global_shape);
  /// `local_first` / `local_count`: the part of the first axis this rank holds (experts).
  Parameter& add_experts(std::string name, Shape global_shape, int64_t local_first, int64_t local_count);

  void allocate_values();  ///< once, after the last add(): zeros
  void allocate_gradients();
  /// bfloat16 copies of the parameters that `wanted` names.
  void allocate_narrow(const std::function<bool(const Parameter&)>& wanted);
  /// Call after writing to values: the copies are made anew before the next forward pass.
  void values_changed() { narrow_is_old_ = true; }
  void refresh_narrow(const Kernels& kernels);
  void clear_gradients();  ///< forgets, does not zero: the next backward pass overwrites

  std::deque<Parameter>& all() { return parameters_; }
  const std::deque<Parameter>& all() const { return parameters_; }
  Parameter& find(const std::string& name);

  /// Where a parameter lies in the arenas of its sharing.
  ArenaRange range(const Parameter& p) const;
  int64_t arena_count(Sharing sharing) const;
  std::span<float> values(Sharing sharing, ArenaRange range) const;
  std::span<float> gradients(Sharing sharing, ArenaRange range) const;
  /// Maximal runs of neighbours whose gradients were written.
  std::vector<ArenaRange> gradient_runs(Sharing sharing) const;
  /// Maximal runs of the neighbours that `wanted` names.
  std::vector<ArenaRange> runs(Sharing sharing, const std::function<bool(const Parameter&)>& wanted) const;

  int64_t global_count() const;  ///< elements of all tensors, all experts

 private:
  struct Arena {
    std::vector<ArenaRange> ranges;  ///< of the parameters of this sharing, in order
    int64_t count = 0;
    Tensor values, gradients;
  };
  Arena& arena(Sharing sharing) { return arenas_[static_cast<size_t>(sharing)]; }
  const Arena& arena(Sharing sharing) const { return arenas_[static_cast<size_t>(sharing)]; }
  Parameter& lay_out(Parameter& p);

  std::deque<Parameter> parameters_;
  Arena arenas_[2];
  bool narrow_is_old_ = true;
};

}  // namespace heddle
