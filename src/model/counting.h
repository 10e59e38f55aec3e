// Parameters and floating-point operations by formula, without building a model.
// Products count two operations per multiply-add; experts count k, not E; loops multiply; lookups are free.
#pragma once

#include "model/model_config.h"

namespace heddle {

/// Of the layers of one part of the stack.
struct LayerCount {
  int64_t attention = 0, dense = 0, routers = 0, routed_experts = 0, shared_experts = 0, norms = 0;
  int64_t total() const { return attention + dense + routers + routed_experts + shared_experts + norms; }
};

struct ParameterCount {
  int64_t embedding = 0;  ///< V D
  int64_t head = 0;       ///< V D; 0 where tied to the embedding
  LayerCount prelude, core, coda;
  int64_t boundary = 0;  ///< re-injection, hyper-connections, conditioning
  int64_t norms = 0;     ///< after the embedding, at loop ends, before the head
  int64_t active = 0;    ///< used by one token in one visit of every layer: k of E experts, one router per layer
  int64_t layers() const { return prelude.total() + core.total() + coda.total(); }
  int64_t total() const { return embedding + head + layers() + boundary + norms; }
  int64_t without_embeddings() const { return layers() + boundary + norms; }
};
ParameterCount count_parameters(const ModelConfig& model);
/// Throws UsageError for a model whose parameters, or the bytes of its training state, 64 bits cannot count.
void check_countable(const ModelConfig& model);

/// Weights of the matrices of one layer that one token meets in one visit: k of E experts, one router.
double weights_met_in_a_layer(const ModelConfig& model, bool experts);
/// Multiply-adds per token between two loops.
double products_between_loops(const ModelConfig& model);

/// Operations per token, by part.
struct FlopCount {
  double prelude = 0, core = 0, boundary = 0, coda = 0, head = 0;
  double total() const { return prelude + core + boundary + coda + head; }
  /// Adds `share` of another count, for means.
  void add(const FlopCount& other, double share);
};

/// How often a token meets each part in one step.
struct LoopWork {
  int64_t loops = 1;             ///< visits of the core
  int64_t without_gradient = 0;  ///< of which run forward only
  int64_t entries = 1;           ///< passes through the prelude
  int64_t exits = 1;             ///< passes through coda and head
};

/// Forward, at a sequence length (attention averaged over causal positions).
FlopCount forward_flops_per_token(const ModelConfig& model, int64_t sequence, const LoopWork& work);
/// Training: three times forward, once for loops without gradient. Recomputation is never counted.
FlopCount training_flops_per_token(const ModelConfig& model, int64_t sequence, const LoopWork& work);

}  // namespace heddle
