// What the model is: sizes and constants, as configuration keys. Formulas: docs/architecture.md and the headers of
// loom.h; names and defaults follow the LOOM release.
#pragma once

#include <string>

#include "moe/moe_layer.h"
#include "support/config.h"

namespace heddle {

struct ModelConfig {
  int64_t vocabulary_size = 0;  ///< V; 0 in a training configuration: taken from the token store
  int64_t hidden_size = 128;    ///< D
  int64_t layers = 2;           ///< L, stored layers of the core
  int64_t loops = 3;            ///< R, visits of the core
  int64_t query_heads = 4;
  int64_t kv_heads = 2;
  int64_t head_dim = 32;
  double norm_eps = 1e-6;
  double rope_theta = 10000;
  double residual_lambda = 0.5;     ///< gamma = residual_lambda / (R sqrt(L))
  double reinjection_lambda = 0.5;  ///< g_t = clip(reinjection_lambda / (t sqrt(L)), 0, 1), t >= 2
  double ema_beta_local = 0.5;
  double ema_beta_global = 0.5;
  std::string capacity_scope = "rank", gate = "learned";
  MoeConfig moe{.experts = 8, .top_k = 2, .shared_experts = 1, .intermediate = 64};

  void declare(Config& config);
  void validate();  ///< throws UsageError naming key, value and a value that would work; fills moe.capacity_scope and
                    ///< moe.gate

  /// gamma of the scaled residual for `loops` loops (the configured count, or that of an evaluation that rescales).
  double residual_scale(int64_t loop_count) const;
  /// g_t, t from 1; 0 for t = 1.
  double reinjection_gate(int64_t t) const;
};

}  // namespace heddle
