// How the visits of a tied core share one gradient: norms and alignment by matrix, kappa with read-back products, and
// what truncated or segmented back-propagation keeps of the full gradient (docs/probe.md has the formulas).
#pragma once

#include "probe/visit_gradients.h"
#include "train/back_propagation.h"

namespace heddle {

enum class GradientDetail { kNone, kNorms, kKappa };
extern const Names<GradientDetail> kGradientDetails;

/// Loops (from 0) whose visits training gives a gradient: the last B of truncated back-propagation, else all.
std::vector<int64_t> gradient_visible_loops(const BackPropagation& schedule, int64_t loops);

/// s of the bound M kappa s^2: beta / alpha of deepnorm, the branch multiplier of the plain and scaled schemes; NaN for
/// schemes that norm or divide their branches in another way.
double branch_to_stream(const ModelConfig& config);

/// Change of the final states of all counted positions (after the final norm) per unit of a step along the sum of the
/// gradients of `group` in visit t alone, for each of `loops`: U_t by central differences in float32, with the choices
/// of experts held. Their inner products over positions and ranks. Collective; 2 |loops| + 1 forward passes per
/// micro-batch.
Gram read_backs(LoopedModel& model, const ProbeDocuments& documents, const std::vector<VisitGradient>& gradients,
                const std::vector<int64_t>& loops, const std::function<bool(const Parameter&)>& group);

/// Fills result.gradients up to `detail`; kappas only for tied cores of two loops or more. Collective.
void probe_gradients(LoopedModel& model, const ProbeDocuments& documents, const BackPropagation& schedule,
                     GradientDetail detail, ProbeResult& result);

}  // namespace heddle
