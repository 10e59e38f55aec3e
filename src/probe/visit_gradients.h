// The gradient of a weight that several loops share, apart for each visit: the tape gets stand-ins of the core's
// parameters, one for each loop, that share the weights and have a gradient memory of their own. Costs one full
// back-propagation per micro-batch and, for R loops, R times the memory of the core's gradients.
#pragma once

#include <map>

#include "probe/documents.h"

namespace heddle {

/// Stand-ins of the parameters of the core ("core.*"), one for every loop that uses them. As the observer of the pass
/// it learns which loop is under way.
class VisitParameters final : public ParameterSubstitution, public DocumentObserver {
 public:
  Parameter& stand_in(Parameter& p) override;
  void on_loop_input(int64_t loop, const Tensor& input) override;
  void on_block(const BlockView& view) override;

  /// (parameter of the model, loop) -> stand-in. Its value is the model's until somebody sets another one.
  std::map<std::pair<const Parameter*, int64_t>, Parameter>& visits() { return visits_; }
  /// Choices of the last pass, for Interventions::choices.
  const std::map<std::pair<int64_t, int64_t>, Tensor>& choices() const { return choices_; }
  void keep_choices(bool keep) { keeps_choices_ = keep; }
  /// Stand-ins made from now on have gradient memory.
  void allocate_gradients(bool allocate) { allocates_ = allocate; }

 private:
  int64_t loop_ = 0;
  bool allocates_ = false, keeps_choices_ = false;
  std::map<std::pair<const Parameter*, int64_t>, Parameter> visits_;
  std::map<std::pair<int64_t, int64_t>, Tensor> choices_;
};

/// One visit's gradient of one parameter, summed over ranks, on the host.
struct VisitGradient {
  const Parameter* parameter = nullptr;
  int64_t loop = 0;
  std::vector<float> gradient;  ///< this rank's elements
};

/// Gradients of the documents' mean loss (its head's z term included, router losses not) by visit, in the order of
/// parameters and loops. The sum over loops is the ordinary gradient of full back-propagation. Capacity is off.
/// Collective.
std::vector<VisitGradient> visit_gradients(LoopedModel& model, const ProbeDocuments& documents);

/// Inner products of vectors, [n,n] row-major.
struct Gram {
  int64_t n = 0;
  std::vector<double> products;
  explicit Gram(int64_t size) : n(size), products(static_cast<size_t>(size * size), 0) {}
  double& at(int64_t i, int64_t j) { return products[static_cast<size_t>(i * n + j)]; }
  double at(int64_t i, int64_t j) const { return products[static_cast<size_t>(i * n + j)]; }
  double norm(int64_t i) const;  ///< of one vector
  double sum_norm() const;       ///< of the sum of all
};

/// |sum_t G_t|^2 / sum_t |G_t|^2: the gradient half of kappa. NaN if all are zero.
double alignment(const Gram& gradients);

/// |sum U| |sum G| / (R max|U| max|G|), R vectors each; NaN if either half is zero.
double kappa(const Gram& read_backs, const Gram& gradients);

/// Inner products over loops (in the order of `loops`) of the gradients of the parameters that `wanted` names; a visit
/// without gradient is a zero vector. Each expert counts once. Collective.
Gram gradient_gram(LoopedModel& model, const std::vector<VisitGradient>& gradients, const std::vector<int64_t>& loops,
                   const std::function<bool(const Parameter&)>& wanted);

}  // namespace heddle
