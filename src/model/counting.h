// Parameters and floating-point operations by formula, without building a model.
// Products count two operations per multiply-add; experts count k, not E; loops multiply; lookups are free.
#pragma once

#include "model/model_config.h"

namespace heddle {

struct ParameterCount {
  int64_t embedding = 0;  ///< V D
  int64_t head = 0;       ///< V D
  int64_t attention = 0;  ///< all layers
  int64_t routers = 0;    ///< all layers and loops: the only part that grows with R
  int64_t routed_experts = 0;
  int64_t shared_experts = 0;
  int64_t norms = 0;
  int64_t total() const { return embedding + head + attention + routers + routed_experts + shared_experts + norms; }
  int64_t active = 0;  ///< used by one token in one visit of every layer: k of E experts, one router per layer
};
ParameterCount count_parameters(const ModelConfig& model);

/// Forward operations per token at a sequence length (attention averaged over causal positions), over `loops` visits of
/// the core and `heads` applications of the head.
double forward_flops_per_token(const ModelConfig& model, int64_t sequence, int64_t loops, int64_t heads);

/// Training: three times forward; the head is applied once per segment. Recomputation is never counted.
double training_flops_per_token(const ModelConfig& model, int64_t sequence, int64_t segments);

}  // namespace heddle
