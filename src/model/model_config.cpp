#include "model/model_config.h"

#include <algorithm>
#include <cmath>

namespace heddle {

void ModelConfig::declare(Config& c) {
  const Limits size{1, 1 << 24, false, false}, count{1, 65536, false, false};
  c.add("model.vocabulary_size", vocabulary_size, {0, 1 << 24, false, false},
        "vocabulary V; 0 takes that of the token store");
  c.add("model.hidden_size", hidden_size, size, "width D of the residual stream");
  c.add("model.layers", layers, count, "stored layers L of the core");
  c.add("model.loops", loops, {1, 1024, false, false}, "visits R of the core");
  c.add("model.query_heads", query_heads, count, "query heads");
  c.add("model.kv_heads", kv_heads, count, "key-value heads; divides model.query_heads");
  c.add("model.head_dim", head_dim, {2, 4096, false, false}, "width of one head, even");
  c.add("model.norm_eps", norm_eps, {0, 1, true, false}, "epsilon inside every RMSNorm");
  c.add("model.rope_theta", rope_theta, {1, 1e12, true, false}, "base of the rotary angles");
  c.add("residual.lambda", residual_lambda, {0, 1e3, true, false}, "branch multiplier is lambda / (R sqrt(L))");
  c.add("residual.ema_beta_local", ema_beta_local, {0, 1, false, true}, "looping residual: decay over layers");
  c.add("residual.ema_beta_global", ema_beta_global, {0, 1, false, true}, "looping residual: decay over visits");
  c.add("reinjection.lambda", reinjection_lambda, {0, 1e3, false, false},
        "embedding re-injection gate at loop t is lambda / (t sqrt(L)), at most 1");
  c.add("moe.experts", moe.experts, count, "routed experts E, in total over all ranks");
  c.add("moe.top_k", moe.top_k, {1, 64, false, false}, "routed experts per token k (shared ones not counted)");
  c.add("moe.shared_experts", moe.shared_experts, {0, 1024, false, false}, "experts that every token visits");
  c.add("moe.intermediate", moe.intermediate, size, "width F of one expert");
  c.add("moe.capacity_factor", moe.capacity_factor, {0, 1e4, false, false},
        "slots per expert = factor * tokens * k / E; 0: dropless");
  c.add("moe.capacity_scope", capacity_scope, {"rank", "global"},
        "tokens that compete for an expert's slots: one rank's micro-batch, or all ranks'");
  c.add("moe.gate", gate, {"learned", "uniform", "first"},
        "learned: the router chooses; for benchmarks, uniform: all experts in turn, first: all tokens to the first k");
}

void ModelConfig::validate() {
  if (moe.top_k > moe.experts)
    throw UsageError(fmt::format("moe.top_k = {} with moe.experts = {}", moe.top_k, moe.experts),
                     fmt::format("moe.top_k can be 2 to {}", moe.experts));
  if (moe.top_k == 1 && moe.experts > 1)
    throw UsageError("moe.top_k = 1 with renormalised weights: every weight is 1 and the router gets no gradient",
                     "use moe.top_k = 2 or more");
  if (query_heads % kv_heads != 0)
    throw UsageError(fmt::format("model.kv_heads = {} does not divide model.query_heads = {}", kv_heads, query_heads),
                     "choose a divisor of model.query_heads");
  if (head_dim % 2 != 0)
    throw UsageError(fmt::format("model.head_dim = {} is odd; rotary positions pair its halves", head_dim),
                     fmt::format("use {}", head_dim + 1));
  const double never_binds = static_cast<double>(moe.experts) / static_cast<double>(moe.top_k);
  if (moe.capacity_factor >= never_binds)
    throw UsageError(
        fmt::format("moe.capacity_factor = {} never binds: from E/k = {} on an expert could take every token",
                    moe.capacity_factor, never_binds),
        "use 1 to 2, or 0 for dropless");
  moe.capacity_scope = capacity_scope == "global" ? CapacityScope::kGlobal : CapacityScope::kRank;
  moe.gate = gate == "uniform" ? Gate::kUniform : gate == "first" ? Gate::kFirst : Gate::kLearned;
}

double ModelConfig::residual_scale(int64_t loop_count) const {
  return residual_lambda / (static_cast<double>(loop_count) * std::sqrt(static_cast<double>(layers)));
}

double ModelConfig::reinjection_gate(int64_t t) const {
  if (t < 2) return 0;
  return std::clamp(reinjection_lambda / (static_cast<double>(t) * std::sqrt(static_cast<double>(layers))), 0.0, 1.0);
}

}  // namespace heddle
