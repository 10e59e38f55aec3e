// A probe of a model on documents: all parts in turn. Weights, balance biases and training state stay as they are.
#pragma once

#include <functional>

#include "probe/effects.h"
#include "probe/gradients.h"

namespace heddle {

struct ProbeOptions {
  DocumentOptions documents;
  EffectOptions effects;
  GradientDetail gradients = GradientDetail::kNone;
  BackPropagation back_propagation;                      ///< of the training: which visits its gradient sees
  std::function<void(const std::string&)> on_part = {};  ///< told what begins; for a line on the terminal
};

/// Everything but the names and the step of what is probed. Throws Error for a part without documents, UsageError for
/// what the model does not have. All ranks get the same result. Collective.
ProbeResult probe(LoopedModel& model, const TokenStore& store, Part part, const ProbeOptions& options);

}  // namespace heddle
