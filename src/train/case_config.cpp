#include "train/case_config.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace heddle {

namespace {

using Json = nlohmann::json;

template <typename T>
T value_of(const Json& json, const char* key, const std::string& path) {
  const auto found = json.find(key);
  if (found == json.end())
    throw Error(fmt::format("'{}' lacks the key \"{}\"", path, key), "see docs/reference_cases.md");
  try {
    return found->get<T>();
  } catch (const Json::exception&) {
    fail("'{}': \"{}\" is {}, which is not of the expected kind", path, key, found->dump());
  }
}

int64_t positive(const Json& json, const char* key, const std::string& path, int64_t least = 1) {
  const auto value = value_of<int64_t>(json, key, path);
  if (value < least) fail("'{}': \"{}\" is {}, expected {} or more", path, key, value, least);
  return value;
}

/// Choices that a case may spell out but that LOOM fixes.
void check_recipe(const Json& config, const std::string& path) {
  const Json expected = {{"router_per_loop", true},
                         {"router_score", "sigmoid"},
                         {"tied_embeddings", false},
                         {"balance_bias_for_selection_only", true},
                         {"routed_weights", "renormalised"},
                         {"embedding_scale", "sqrt(hidden_size)"},
                         {"spike_guard", false},
                         {"world_size", 1},
                         {"micro_batches", 1},
                         {"router_z_loss", 0.0}};
  const Json recipe = config.value("recipe", Json::object());
  for (const auto& [key, value] : expected.items())
    if (recipe.contains(key) && recipe[key] != value)
      fail("'{}': recipe.{} is {}; this build computes {} only", path, key, recipe[key].dump(), value.dump());
  if (config.contains("rope_layout") && config["rope_layout"] != "half")
    fail("'{}': rope_layout is {}; this build computes \"half\" only", path, config["rope_layout"].dump());
}

}  // namespace

CaseConfig read_case_config(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error(fmt::format("there is no file '{}'", path), "a case folder holds config.json and case.h5");
  Json json;
  try {
    json = Json::parse(file);
  } catch (const Json::exception& error) {
    // The library puts its own "[json.exception...] " in front.
    const std::string text = error.what();
    fail("'{}' is not valid JSON: {}", path, text.substr(text.find("] ") == text.npos ? 0 : text.find("] ") + 2));
  }
  if (!json.is_object()) fail("'{}' is not a JSON object", path);
  if (const auto version = value_of<int64_t>(json, "format_version", path); version != 1)
    fail("'{}': format_version is {}; this build reads version 1", path, version);
  check_recipe(json, path);

  CaseConfig c;
  c.name = json.value("case", std::string());
  c.batch = positive(json, "batch_size", path);
  c.sequence = positive(json, "seq_len", path);
  c.steps = positive(json, "steps", path);
  ModelConfig& m = c.model;
  m.vocabulary_size = positive(json, "vocab_size", path);
  m.hidden_size = positive(json, "hidden_size", path);
  m.head_dim = positive(json, "head_dim", path);
  m.query_heads = positive(json, "n_query_heads", path);
  m.kv_heads = positive(json, "n_kv_heads", path);
  m.layers = positive(json, "n_layers", path);
  m.loops = positive(json, "loops", path);
  m.norm_eps = value_of<double>(json, "norm_eps", path);
  m.rope_theta = value_of<double>(json, "rope_theta", path);
  m.residual_lambda = m.reinjection_lambda = value_of<double>(json, "residual_lambda", path);
  m.ema_beta_local = value_of<double>(json, "ema_beta_local", path);
  m.ema_beta_global = value_of<double>(json, "ema_beta_global", path);
  m.moe.experts = positive(json, "n_routed_experts", path);
  m.moe.top_k = positive(json, "top_k", path);
  m.moe.shared_experts = positive(json, "n_shared_experts", path, 0);
  m.moe.intermediate = positive(json, "expert_intermediate", path);
  m.moe.capacity_scope = CapacityScope::kGlobal;
  if (m.moe.top_k > m.moe.experts) fail("'{}': top_k {} of {} experts", path, m.moe.top_k, m.moe.experts);
  if (m.query_heads % m.kv_heads != 0 || m.head_dim % 2 != 0)
    fail("'{}': {} query heads, {} key-value heads of width {} do not fit together", path, m.query_heads, m.kv_heads,
         m.head_dim);
  c.capacity_factor = value_of<double>(json, "capacity_factor", path);
  c.capacity_in_training = value_of<bool>(json, "capacity_in_training", path);
  c.step.segment_loops = positive(json, "segment_len", path, 0);
  c.step.balance_rate = value_of<double>(json, "balance_bias_rate", path);

  const Json optimizer = value_of<Json>(json, "optimizer", path);
  c.optimizer.name = value_of<std::string>(optimizer, "name", path);
  if (c.optimizer.name != "adamw") fail("'{}': optimizer '{}'; this build verifies adamw", path, c.optimizer.name);
  c.optimizer.learning_rate = value_of<double>(optimizer, "lr", path);
  c.optimizer.beta1 = value_of<double>(optimizer, "beta1", path);
  c.optimizer.beta2 = value_of<double>(optimizer, "beta2", path);
  c.optimizer.eps = value_of<double>(optimizer, "eps", path);
  c.optimizer.weight_decay = value_of<double>(optimizer, "weight_decay", path);
  c.step.clip_norm = value_of<double>(optimizer, "clip_grad_norm", path);
  const Json schedule = value_of<Json>(json, "schedule", path);
  if (const auto name = value_of<std::string>(schedule, "name", path); name != "wsd")
    fail("'{}': schedule '{}'; this build computes wsd", path, name);
  c.schedule.total_steps = positive(schedule, "total_steps", path);
  c.schedule.warmup_ratio = value_of<double>(schedule, "warmup_ratio", path);
  c.schedule.decay_ratio = value_of<double>(schedule, "decay_ratio", path);
  c.schedule.min_ratio = value_of<double>(schedule, "min_ratio", path);
  return c;
}

}  // namespace heddle
